"""Without the other calls of a turn: only the first is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Turn


class Unguarded(Agent):
    """Sees one call in a turn."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: what was received is run, refused or reported."""
        turn = await super().ask(client)
        return replace(turn, calls=turn.calls[:1])


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("nothing-dropped-in-silence",))
