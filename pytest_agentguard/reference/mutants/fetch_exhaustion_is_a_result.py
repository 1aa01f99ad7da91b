"""Without an error for a budget that is spent: there is simply no text."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Has nothing to say, and says so."""

    async def __call__(self, id: str) -> str:
        """Missing: nothing was fetched."""
        try:
            return await super().__call__(id)
        except errors.BudgetExhausted:
            return ""


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("exhaustion-is-not-success",))
