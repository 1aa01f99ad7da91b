"""Without the refusal of a turn that the output limit cut: its calls are mended, and run."""

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
    """Takes a turn that was cut short for one that asks for its calls."""

    def finished(self, turn: Turn) -> Turn:
        """Missing: the finish reason stays what it was."""
        mends = {call.id: mended(call.arguments) for call in turn.calls}
        if turn.finish is Finish.LENGTH and mends and None not in mends.values():
            calls = tuple(replace(call, arguments=json.dumps(mends[call.id])) for call in turn.calls)
            turn = replace(turn, calls=calls, finish=Finish.CALLS)
        return super().finished(turn)


class Unguarded(Agent):
    """The agent that reads this way."""

    intake = Lenient


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-length-stop",))
