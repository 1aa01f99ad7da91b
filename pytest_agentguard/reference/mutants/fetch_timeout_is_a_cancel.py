"""Without the difference between a timeout and a cancel: both come out as a cancel."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Cancels what takes too long."""

    async def __call__(self, id: str) -> str:
        """Missing: nobody cancelled this."""
        try:
            return await super().__call__(id)
        except errors.TimedOut as error:
            raise asyncio.CancelledError(str(error)) from error


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("timeout-is-not-cancel",))
