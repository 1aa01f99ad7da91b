"""Without one key for one call: every attempt looks like a new one."""

from __future__ import annotations

import uuid
from typing import Any

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Forgetful(Attempts):
    """Has a new key each time it is asked."""

    first_wait = 0.01

    def key(self) -> str:
        """Missing: the same key as long as it is the same call."""
        return str(uuid.uuid4())


class Unguarded(FetchTool):
    """Makes a key for every request."""

    attempts = Forgetful


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("idempotency-key-stable", "no-replay-after-effect"))
