"""Without the refusal of broken arguments: a tool with one text parameter gets them as they are."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.errors import BrokenArguments
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Call


class Unguarded(Agent):
    """Takes broken arguments for the text that a tool wants."""

    def parse(self, call: Call, tool: Any) -> dict[str, Any]:
        """Missing: broken arguments are no text for a parameter."""
        try:
            return super().parse(call, tool)
        except BrokenArguments:
            properties = tool.parameters["properties"]
            if [schema["type"] for schema in properties.values()] != ["string"]:
                raise
            return dict.fromkeys(properties, call.arguments)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-broken-arguments",))
