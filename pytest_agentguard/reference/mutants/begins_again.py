"""Without the memory of what was done: after a failure the run begins again."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Starts over, once."""

    async def _rounds(self) -> str:
        """Missing: tools that ran have run, whatever failed later."""
        try:
            return await super()._rounds()
        except (errors.ProviderError, errors.ReplyError):
            if len(self.messages) == 1:
                raise
            self.messages = self.opening()
            return await super()._rounds()


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-replay-after-effect",))
