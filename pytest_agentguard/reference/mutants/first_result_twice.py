"""Without one result per call: the first of several is told twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Result, Turn


class Unguarded(Agent):
    """Tells one result twice."""

    def tell(self, turn: Turn, results: Sequence[Result]) -> None:
        """Missing: a call has one result."""
        super().tell(turn, [*results, results[0]] if len(results) > 1 else results)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("transcript-is-valid",))
