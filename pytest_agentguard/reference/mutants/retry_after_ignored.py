"""Without respect for Retry-After: the next attempt comes when it likes."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Impatient(Attempts):
    """Knows only its own pauses."""

    def wait_after(self, failure: errors.AgentError) -> float:
        """Missing: the server says when it can be asked again."""
        failure.retry_after = None
        return super().wait_after(failure)


class Unguarded(Agent):
    """Comes back at its own pace."""

    attempts = Impatient


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("retry-after-respected",))
