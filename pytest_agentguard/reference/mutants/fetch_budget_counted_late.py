"""Without the attempt taken before the request: workers that look at once all find it still there."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.fetch import Fetched, FetchTool
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Late(Attempts):
    """Looks, and takes nothing."""

    def begin(self) -> None:
        """Looking and taking are two steps."""
        if self.budget.left <= 0:
            raise errors.BudgetExhausted("no attempt is left")
        self.made += 1


class Unguarded(FetchTool):
    """Counts when the answer is there."""

    attempts = Late

    async def exchange(self, fetched: Fetched, request: dict[str, Any]) -> str:
        """Missing: an attempt is taken before its request is made."""
        try:
            return await super().exchange(fetched, request)
        finally:
            self.budget.spent += 1


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("budget-shared", "no-request-past-budget"))
