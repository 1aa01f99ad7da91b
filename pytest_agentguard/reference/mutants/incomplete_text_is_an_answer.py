"""Without the wait for completion where only text came: half an answer is returned as the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Trusting(Intake):
    """Takes text from a stream that ended early."""

    def finished(self, turn: Turn) -> Turn:
        """Missing: no finish reason, no turn."""
        if turn.finish is None and turn.text and not turn.calls:
            return replace(turn, finish=Finish.STOP)
        return super().finished(turn)


class Unguarded(Agent):
    """The agent that reads this way."""

    intake = Trusting


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-success-on-incomplete-stream",))
