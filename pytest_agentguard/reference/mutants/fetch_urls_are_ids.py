"""Without the list: whatever looks like a URL is fetched."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Takes a URL for an id."""

    def url_of(self, id: Any) -> str:
        """Missing: only what is on the list is fetched."""
        return id if str(id).startswith("http") else super().url_of(id)


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("nothing-forbidden-arrives", "refusal-is-free"))
