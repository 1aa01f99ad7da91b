"""Without a deadline: every call has all the time again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Has no deadline."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: all calls together have an end."""
        return replace(super().bounds_of(limits), deadline=None)


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("deadline-ends-run", "no-call-after-stop"))
