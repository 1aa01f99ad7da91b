"""Without respect for Retry-After: the next attempt comes when it likes."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Impatient(Attempts):
    """Knows only its own pauses."""

    def wait_after(self, failure: errors.AgentError) -> float:
        """Missing: the server says when it can be asked again."""
        failure.retry_after = None
        return super().wait_after(failure)


class Unguarded(FetchTool):
    """Comes back at its own pace."""

    attempts = Impatient


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("retry-after-respected",))
