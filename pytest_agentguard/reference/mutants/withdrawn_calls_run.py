"""Without the look at the finish reason where calls are there: refused and unknown ends run their calls."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Runs calls whatever the finish reason says, unless it names the output limit."""

    def permit(self, turn: Turn) -> None:
        """Missing: a refused turn and an unknown finish reason permit nothing."""
        if not (turn.calls and turn.finish in (Finish.REFUSED, Finish.UNKNOWN)):
            super().permit(turn)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-withdrawn-call",))
