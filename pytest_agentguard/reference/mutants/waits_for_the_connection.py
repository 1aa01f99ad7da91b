"""Without the completion marker as the end: the response is read until the connection ends it."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Waiting(Intake):
    """Reads on after the marker."""

    def is_over(self) -> bool:
        """Missing: what has been said is complete."""
        return False


class Unguarded(Agent):
    """The agent that reads this way."""

    intake = Waiting


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("marker-ends-the-wait",))
