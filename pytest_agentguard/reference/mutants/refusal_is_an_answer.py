"""Without the error for a refusal: its text is returned as the answer."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Takes a refusal for an answer."""

    def permit(self, turn: Turn) -> None:
        """Missing: a refusal is no answer."""
        if turn.calls or turn.finish is not Finish.REFUSED:
            super().permit(turn)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("refusal-is-visible",))
