"""Without an end of its patience: it sleeps as long as the server asks, whatever time is left."""

from __future__ import annotations

from typing import Any

import anyio

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Patient(Attempts):
    """Waits for whatever it is asked for."""

    def fits(self, wait: float) -> bool:
        """Missing: a pause that outlasts the deadline is not begun."""
        return True


class Unguarded(FetchTool):
    """Sleeps through everything."""

    attempts = Patient

    async def pause(self, seconds: float) -> None:
        """Missing: a pause ends with the run."""
        with anyio.CancelScope(shield=True):
            await super().pause(seconds)


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("retry-after-bounded",))
