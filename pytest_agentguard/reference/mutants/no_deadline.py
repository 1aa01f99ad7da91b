"""Without the limits on the whole: a stream that trickles is read for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Reads as long as something comes."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: every exchange and every run end."""
        return replace(super().bounds_of(limits), request_timeout=None, deadline=None)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("trickle-ends",))
