"""Without the way out of a cancel: what had come by then is returned as the answer."""

from __future__ import annotations

from typing import Any

import anyio

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Makes the best of a cancel."""

    async def run(self) -> str:
        """Missing: a run that is cancelled ends as cancelled."""
        try:
            return await super().run()
        except anyio.get_cancelled_exc_class():
            return self.kept


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("cancel-stays-cancelled",))
