"""Without the same treatment of both modes: a turn cut short is asked for again where it is not streamed."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Has a second chance in one mode only."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: the mode changes how a reply comes, not what it means."""
        turn = await super().ask(client)
        if self.job.mode == "block" and turn.finish is Finish.LENGTH:
            return await super().ask(client)
        return turn


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("stream-and-block-agree",))
