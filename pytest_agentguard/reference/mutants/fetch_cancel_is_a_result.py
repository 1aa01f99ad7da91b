"""Without the way out of a cancel: a cancelled call returns an empty text."""

from __future__ import annotations

from typing import Any

import anyio

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Makes the best of a cancel."""

    async def __call__(self, id: str) -> str:
        """Missing: a call that is cancelled ends as cancelled."""
        try:
            return await super().__call__(id)
        except anyio.get_cancelled_exc_class():
            return ""


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("cancel-stays-cancelled",))
