"""Without the refusal of broken arguments: what is open is closed, what is half is dropped."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.errors import BrokenArguments
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.mutants._mending import mended
from pytest_agentguard.reference.turns import Call


class Unguarded(Agent):
    """Makes an object of what can be made one."""

    def parse(self, call: Call, tool: Any) -> dict[str, Any]:
        """Missing: broken arguments stay broken."""
        try:
            return super().parse(call, tool)
        except BrokenArguments:
            found = mended(call.arguments)
            if found is None:
                raise
            return found


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-broken-arguments",))
