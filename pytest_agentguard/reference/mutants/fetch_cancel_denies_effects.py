"""Without an open question after a cancel: it says that nothing was sent."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Promises more than it knows."""

    async def __call__(self, id: str) -> str:
        """Missing: what was sent and not answered is unknown."""
        try:
            return await super().__call__(id)
        except asyncio.CancelledError:
            raise asyncio.CancelledError("cancelled: the order was not placed, nothing was sent") from None


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("cancel-is-not-rollback",))
