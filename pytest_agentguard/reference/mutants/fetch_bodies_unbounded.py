"""Without a bound on a body: all that is sent is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Takes what it gets."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: a body has a size."""
        return replace(super().bounds_of(limits), output_bytes=2**60)


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("response-bounded",))
