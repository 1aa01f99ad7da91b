"""Without the exact joining of pieces: white space at their ends is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Calls


class Stripping(Calls):
    """Joins pieces as if each were a word."""

    def joined(self, fragments: Sequence[str]) -> str:
        """Missing: a piece is taken as it came."""
        return "".join(fragment.strip() for fragment in fragments)


class Unguarded(Agent):
    """The agent that joins this way."""

    calls = Stripping


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("tool-runs-once",))
