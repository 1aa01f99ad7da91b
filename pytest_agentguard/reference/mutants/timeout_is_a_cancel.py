"""Without the difference between a timeout and a cancel: both come out as a cancel."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Cancels what takes too long."""

    async def run(self) -> str:
        """Missing: nobody cancelled this."""
        try:
            return await super().run()
        except errors.TimedOut as error:
            raise asyncio.CancelledError(str(error)) from error


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("timeout-is-not-cancel",))
