"""Without the check of arguments against the tool's schema."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Takes any object for arguments."""

    def validate(self, arguments: dict[str, Any], tool: Any) -> None:
        """Missing: what the schema does not allow does not run."""


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-invalid-arguments",))
