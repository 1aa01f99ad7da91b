"""Without an error for rounds that are used up: what was said so far is the answer."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Says what it has."""

    async def run(self) -> str:
        """Missing: an end at a limit is no answer."""
        try:
            return await super().run()
        except errors.RoundsExhausted:
            return self.kept


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("exhaustion-is-not-success",))
