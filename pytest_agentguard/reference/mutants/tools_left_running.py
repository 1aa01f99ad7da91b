"""Without the wait for tools: a cancelled run leaves them to themselves."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agentguard.reference.conversation import Ready
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Result

_LEFT: set[asyncio.Task[Result]] = set()


class Unguarded(Agent):
    """Starts tools and forgets them."""

    async def execute(self, ready: Ready) -> Result:
        """Missing: a tool ends with the run that started it."""
        task = asyncio.create_task(super().execute(ready))
        _LEFT.add(task)  # else it is collected while it runs
        return await asyncio.shield(task)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-orphan-siblings",))
