"""Without the wait for the end of the turn: a call runs as soon as its arguments are whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_agentguard.reference.conversation import Ready
from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Call, Result


class Eager(Intake):
    """Looks at calls while the response is still coming."""

    run: Callable[[Call], None]

    def feed(self, chunk: bytes) -> bool:
        """Missing: calls are only looked at when the turn is complete."""
        over = super().feed(chunk)
        for call in self.so_far().calls:
            self.run(call)
        return over


class Unguarded(Agent):
    """Runs a call at the first moment at which it can be run."""

    intake = Eager

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        self._early: dict[str, Result] = {}

    def receiving(self) -> Intake:
        """What reads the next response, and runs its calls."""
        intake = super().receiving()
        assert isinstance(intake, Eager)
        intake.run = self._start
        return intake

    def _start(self, call: Call) -> None:
        begun = call.id and call.arguments and call.id not in self._early
        ready = self.check(call) if begun else None
        if isinstance(ready, Ready):
            self._early[call.id] = Result(call, str(ready.tool.run(**ready.arguments)))

    async def execute(self, ready: Ready) -> Result:
        """The result of a call that has run already, else its run."""
        return self._early.get(ready.call.id) or await super().execute(ready)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


# whoever does not wait for the end does not see that the turn is withdrawn there
MUTANT = Mutant(run, breaks=("no-tool-on-incomplete-stream", "no-tool-on-withdrawn-call"))
