"""Without the refusal of cut arguments: what a stream that ended early left open is closed, and run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.mutants._mending import mended
from pytest_agentguard.reference.turns import Finish, Turn


class Lenient(Intake):
    """Mends the arguments of a stream that ended early."""

    def finished(self, turn: Turn) -> Turn:
        """Missing: no finish reason, no turn."""
        mends = {call.id: mended(call.arguments) for call in turn.calls}
        calls = tuple(replace(call, arguments=json.dumps(mends[call.id])) for call in turn.calls)
        if turn.finish is None and calls and None not in mends.values():
            return replace(turn, calls=calls, finish=Finish.CALLS)
        return super().finished(turn)


class Unguarded(Agent):
    """The agent that reads this way."""

    intake = Lenient


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-incomplete-stream",))
