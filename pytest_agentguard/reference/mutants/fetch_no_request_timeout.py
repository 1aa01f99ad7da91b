"""Without a limit on one exchange: an answer that never comes is waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Waits for ever."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: an exchange has an end."""
        return replace(super().bounds_of(limits), request_timeout=None, idle_timeout=None)


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("timeout-ends-call", "every-wait-has-an-exit"))
