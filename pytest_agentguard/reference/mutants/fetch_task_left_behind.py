"""Without an end for what runs beside a call: a task goes on after it."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant

_LEFT: set[asyncio.Task[None]] = set()


class Unguarded(FetchTool):
    """Keeps an eye on nothing."""

    async def __call__(self, id: str) -> str:
        """Missing: whatever a call starts ends with it."""
        _LEFT.add(asyncio.create_task(asyncio.sleep(3600)))
        return await super().__call__(id)


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("nothing-left-behind",))
