"""Without the difference between silence and duration: the idle timeout limits the whole exchange."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Ends an exchange that takes longer than its idle timeout."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: what keeps coming is not late."""
        bounds = super().bounds_of(limits)
        return replace(bounds, request_timeout=bounds.idle_timeout)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("healthy-slow-stream-survives",))
