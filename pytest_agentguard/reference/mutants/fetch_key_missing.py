"""Without an idempotency key: an order that is sent again is a second order."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Keyless(Attempts):
    """Does not say which requests are one call."""

    first_wait = 0.01

    def headers(self) -> dict[str, str]:
        """Missing: what tells the server that two requests are one."""
        return {}


class Unguarded(FetchTool):
    """Sends no key."""

    attempts = Keyless


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("no-replay-after-effect",))
