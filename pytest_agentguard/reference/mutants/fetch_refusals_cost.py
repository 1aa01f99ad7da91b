"""Without the order of the two looks: a refused input has cost an attempt."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Counts before it looks."""

    async def __call__(self, id: str) -> str:
        """Missing: what is refused was never sent."""
        if id not in self.job.allowed and self.budget.left:
            self.budget.reserve()
        return await super().__call__(id)


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("refusal-is-free",))
