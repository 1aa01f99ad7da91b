"""Without the stop: a cancel is an error of the tool that it reached, and the run goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio

from pytest_agentguard.reference.conversation import Ready
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.supervisor import Supervisor
from pytest_agentguard.reference.turns import Result


class Careless(Supervisor):
    """Lets everything go on."""

    async def run(self, work: Any, *arguments: Any) -> Any:
        """The work, and nothing around it but the deadline."""
        with anyio.move_on_after(self.left()):
            return await work(*arguments)
        raise self.too_late()

    def permit(self) -> None:
        """Everything may start."""


class Unguarded(Agent):
    """Tells the model that it was cancelled."""

    supervisor = Careless

    async def _execute(self, ready: Ready, results: list[Result]) -> None:
        """Missing: nothing is started after a stop."""
        try:
            await super()._execute(ready, results)
        except asyncio.CancelledError:
            results.append(Result(ready.call, "error: cancelled", failed=True))

    async def execute(self, ready: Ready) -> Result:
        """In the task of the run."""
        results: list[Result] = []
        await self._execute(ready, results)
        return results[0]


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("cancel-stays-cancelled", "no-call-after-stop"))
