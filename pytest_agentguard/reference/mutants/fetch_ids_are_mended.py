"""Without the strict look at ids: what is nearly one is taken for it."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Knows what was meant."""

    def url_of(self, id: Any) -> str:
        """Missing: an id is on the list letter by letter."""
        return super().url_of(str(id).strip().lower())


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("nothing-forbidden-arrives",))
