"""Without the look at a whole batch: calls run until the limit is reached."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Result, Turn


class Unguarded(Agent):
    """Counts one call after the other."""

    async def perform(self, turn: Turn) -> list[Result]:
        """Missing: a batch beyond the limit is refused before any of it runs."""
        results: list[Result] = []
        for call in turn.calls:
            results += await super().perform(replace(turn, calls=(call,)))
        return results


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("limit-checked-first",))
