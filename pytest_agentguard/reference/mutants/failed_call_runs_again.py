"""Without the rule that a call runs once: a tool that raised is run again."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.conversation import Ready
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Result


class Unguarded(Agent):
    """Tries a tool twice."""

    async def execute(self, ready: Ready) -> Result:
        """Missing: whatever a call did before it failed is not done again."""
        result = await super().execute(ready)
        return await super().execute(ready) if result.failed else result


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("tool-runs-once",))
