"""Without the text that had come before a cancel: it is thrown away."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Agent(job).run()


def kept(job: Any) -> str:
    """Missing: what had come before a cancel is kept."""
    return ""


MUTANT = Mutant(run, breaks=("partial-text-kept",), kept=kept)
