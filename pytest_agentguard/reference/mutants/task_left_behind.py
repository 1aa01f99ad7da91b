"""Without an end for what runs beside the run: a task goes on after it."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant

_LEFT: set[asyncio.Task[None]] = set()


class Unguarded(Agent):
    """Keeps an eye on nothing."""

    async def _rounds(self) -> str:
        """Missing: whatever a run starts ends with it."""
        _LEFT.add(asyncio.create_task(asyncio.sleep(3600)))
        return await super()._rounds()


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("nothing-left-behind",))
