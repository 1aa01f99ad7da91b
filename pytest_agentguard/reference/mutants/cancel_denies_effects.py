"""Without an open question after a cancel: it says that nothing was done."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Promises more than it knows."""

    async def run(self) -> str:
        """Missing: what was done stays done, and what was asked for may be done."""
        try:
            return await super().run()
        except asyncio.CancelledError:
            raise asyncio.CancelledError("cancelled: all changes were rolled back") from None


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("cancel-is-not-rollback",))
