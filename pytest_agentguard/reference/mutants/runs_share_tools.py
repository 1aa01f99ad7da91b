"""Without tools for each run: runs of one process use those of the latest."""

from __future__ import annotations

from typing import Any, ClassVar

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Finds tools in one table for all."""

    every_tool: ClassVar[dict[str, Any]] = {}

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        self.every_tool.update(self.tools)
        self.tools = self.every_tool  # missing: a run has its own


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-call-after-stop", "runs-isolated"))
