"""Without the limit on silence: a stream that stops is waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Waits as long as nobody says anything."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: silence ends."""
        return replace(super().bounds_of(limits), idle_timeout=None)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("stall-ends",))
