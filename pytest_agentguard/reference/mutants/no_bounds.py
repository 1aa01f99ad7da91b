"""Without the bounds of what is kept: it keeps all that is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Keeps everything."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: what comes from outside has a size."""
        return replace(
            super().bounds_of(limits),
            event_bytes=_ENDLESS,
            stream_bytes=_ENDLESS,
            body_bytes=_ENDLESS,
            kept_bytes=_ENDLESS,
        )


_ENDLESS = 2**60


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("stream-memory-bounded",))
