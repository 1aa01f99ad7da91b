"""Without the exact look-up of tools: the tool of the nearest name runs."""

from __future__ import annotations

import difflib
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Call


class Unguarded(Agent):
    """Guesses which tool was meant."""

    def find(self, call: Call) -> Any:
        """Missing: another name is another tool."""
        near = difflib.get_close_matches(call.name.lower(), self.tools, n=1)
        return self.tools[near[0]] if near else super().find(call)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("unknown-tool-is-an-error",))
