"""Without a transcript for each run: runs of one process write into the same."""

from __future__ import annotations

from typing import Any, ClassVar

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.wire import Messages


class Unguarded(Agent):
    """Remembers what other runs said."""

    everything: ClassVar[Messages] = []

    def opening(self) -> Messages:
        """Missing: a run begins with its own prompt and nothing else."""
        self.everything.extend(super().opening())
        return self.everything


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("runs-isolated",))
