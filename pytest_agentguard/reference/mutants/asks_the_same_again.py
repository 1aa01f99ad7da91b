"""Without the rule that the same request ends the same way: a refused turn is asked for again."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Hopes for better luck."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: what the model cannot say now it cannot say in a moment."""
        turn = await super().ask(client)
        return await super().ask(client) if turn.finish in (Finish.LENGTH, Finish.REFUSED) else turn


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("same-failure-not-retried",))
