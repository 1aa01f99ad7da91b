"""Without the refusal of redirects: the list is left by whoever is on it."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Goes wherever it is sent."""

    def settings(self) -> dict[str, Any]:
        """Missing: only what is on the list is asked for."""
        return {**super().settings(), "follow_redirects": True}


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("redirect-not-followed",))
