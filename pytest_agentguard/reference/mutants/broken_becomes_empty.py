"""Without the refusal of broken arguments: the tool runs with none, which means its defaults."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.errors import BrokenArguments
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Call


class Unguarded(Agent):
    """Falls back to an empty object."""

    def parse(self, call: Call, tool: Any) -> dict[str, Any]:
        """Missing: broken arguments are no arguments."""
        try:
            return super().parse(call, tool)
        except BrokenArguments:
            return {}


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-broken-arguments",))
