"""Without the record of a stop: the next call is made as if nothing had been."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.supervisor import Supervisor


class Careless(Supervisor):
    """Puts nothing on record."""

    def stop(self, why: str) -> None:
        """Missing: a stop is for all that comes after it."""


class Unguarded(FetchTool):
    """Forgets that it was stopped."""

    supervisor = Careless


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("no-call-after-stop",))
