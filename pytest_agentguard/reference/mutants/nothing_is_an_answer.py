"""Without the refusal of an empty response: nothing is returned as the answer."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.errors import EmptyReply
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Takes nothing for an answer."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: an empty response is an error."""
        try:
            return await super().ask(client)
        except EmptyReply:
            return Turn("(no answer)", finish=Finish.STOP)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-success-on-empty-stream",))
