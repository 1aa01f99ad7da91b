"""Without the wait for the end of the turn: a call runs as soon as its arguments are whole."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.conversation import Ready
from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Call, Result


class Unguarded(Agent):
    """Runs calls while the response is still coming."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        self._early: dict[str, Result] = {}

    def receiving(self) -> Intake:
        """Missing: calls are only looked at when the turn is complete."""
        intake = super().receiving()
        feed = intake.feed

        def feed_and_run(chunk: bytes) -> bool:
            over = feed(chunk)
            for call in intake.so_far().calls:
                self._start(call)
            return over

        intake.feed = feed_and_run  # type: ignore[method-assign]
        return intake

    def _start(self, call: Call) -> None:
        ready = self.check(call) if call.arguments and call.id not in self._early else None
        if isinstance(ready, Ready):
            self._early[call.id] = Result(call, str(ready.tool.run(**ready.arguments)))

    async def execute(self, ready: Ready) -> Result:
        """The result of a call that has run already, else its run."""
        return self._early.get(ready.call.id) or await super().execute(ready)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-incomplete-stream",))
