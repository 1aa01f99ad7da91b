"""Without a result for calls that failed: the model is not told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Result, Turn


class Unguarded(Agent):
    """Tells successes only."""

    def tell(self, turn: Turn, results: Sequence[Result]) -> None:
        """Missing: a failure is a result."""
        super().tell(turn, [result for result in results if not result.failed])


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("transcript-is-valid",))
