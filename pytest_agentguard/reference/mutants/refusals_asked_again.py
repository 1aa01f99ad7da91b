"""Without the difference between busy and refused: every error is tried again."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Stubborn(Attempts):
    """Tries every status again."""

    first_wait = 0.01

    def is_worth_it(self, failure: errors.AgentError) -> bool:
        """Missing: what is refused for what it is stays refused."""
        return failure.status >= 400 or super().is_worth_it(failure)


class Unguarded(Agent):
    """Takes no for a maybe."""

    attempts = Stubborn


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-retry-on-refusal",))
