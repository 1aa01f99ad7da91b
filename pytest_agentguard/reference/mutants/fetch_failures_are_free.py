"""Without the count of failed attempts: one that failed makes room for another."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Forgiving(Attempts):
    """Gives back what failed."""

    first_wait = 0.01

    def wait_after(self, failure: errors.AgentError) -> float:
        """Missing: an attempt that failed has used up its place."""
        self.budget.spent -= 1
        return super().wait_after(failure)


class Unguarded(FetchTool):
    """Counts what succeeded."""

    attempts = Forgiving


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(
    fetch=fetch,
    breaks=(
        "budget-spent-on-failure",
        "no-request-past-budget",
        "budget-shared",
        "no-call-after-stop",
    ),
)
