"""Without the refusal of redirects: the prompt goes where the server points."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Goes wherever it is sent."""

    def settings(self) -> dict[str, Any]:
        """Missing: the prompt is for one place."""
        return {**super().settings(), "follow_redirects": True}


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("redirect-not-followed", "no-prompt-elsewhere"))
