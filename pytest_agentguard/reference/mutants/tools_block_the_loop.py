"""Without a thread or a task for tools: nobody else goes on while one runs."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.conversation import Ready
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Result


class Unguarded(Agent):
    """Calls its tools on the loop."""

    async def execute(self, ready: Ready) -> Result:
        """Missing: a tool that takes its time takes nobody else's."""
        return Result(ready.call, str(ready.tool.run(**ready.arguments)))


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("blocking-tool-does-not-freeze",))
