"""Without the count of failed attempts: one that failed makes room for another."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.retrying import Attempts


class Forgiving(Attempts):
    """Up to six attempts, whatever is declared."""

    first_wait = 0.01

    def wait_after(self, failure: errors.AgentError) -> float:
        """Missing: an attempt that failed has used up its place."""
        self.budget.spent = 0
        return super().wait_after(failure) if self.made < 6 else self.refuse(failure)

    def are_spent(self) -> bool:
        """Nothing is ever spent."""
        return False

    def refuse(self, failure: errors.AgentError) -> float:
        """The end of all patience."""
        raise failure


class Unguarded(Agent):
    """Counts what succeeded."""

    attempts = Forgiving


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("budget-spent-on-failure", "no-request-past-budget"))
