"""Without a limit on one exchange: an answer that never comes is waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Waits for the head of a response for ever."""

    def bounds_of(self, limits: Any) -> Bounds:
        """Missing: an exchange has an end."""
        return replace(super().bounds_of(limits), request_timeout=None, idle_timeout=None)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("timeout-ends-call", "every-wait-has-an-exit"))
