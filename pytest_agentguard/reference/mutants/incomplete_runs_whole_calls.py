"""Without the wait for completion where calls look whole: a stream that ended early is taken for complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.strict_json import NotJson, parse
from pytest_agentguard.reference.turns import Finish, Turn


class Trusting(Intake):
    """Takes calls with whole arguments from a stream that ended early."""

    def finished(self, turn: Turn) -> Turn:
        """Missing: no finish reason, no turn."""
        calls = tuple(call for call in turn.calls if _whole(call.arguments))
        if turn.finish is None and calls:
            return replace(turn, calls=calls, finish=Finish.CALLS)
        return super().finished(turn)


class Unguarded(Agent):
    """The agent that reads this way."""

    intake = Trusting


def _whole(text: str) -> bool:
    try:
        return isinstance(parse(text), dict)
    except NotJson:
        return False


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-incomplete-stream",))
