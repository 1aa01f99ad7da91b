"""Without the refusal of calls that have no id: they get one that nobody sent."""

from __future__ import annotations

import uuid
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Calls, Pieces


class Inventing(Calls):
    """Gives a call without an id a new one."""

    def identity(self, pieces: Pieces) -> str:
        """Missing: an id is the provider's."""
        return pieces.id or f"call_{uuid.uuid4().hex[:9]}"


class Unguarded(Agent):
    """The agent that names calls this way."""

    calls = Inventing


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("calls-kept-apart",))
