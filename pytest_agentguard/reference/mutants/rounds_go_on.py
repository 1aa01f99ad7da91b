"""Without the limit on rounds: the model is asked as long as it calls tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Has no end of its own."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: a run has a number of turns."""
        return replace(super().bounds_of(limits), rounds=1000)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("rounds-bounded",))
