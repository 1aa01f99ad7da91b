"""Without tools for each run: runs of one process use those of the latest."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant

_TOOLS: dict[str, Any] = {}


class Unguarded(Agent):
    """Finds tools in one table for all."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        _TOOLS.update(self.tools)
        self.tools = _TOOLS  # missing: a run has its own


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("runs-isolated",))
