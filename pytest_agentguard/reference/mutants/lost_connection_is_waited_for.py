"""Without an end for a reply that cannot come any more: it is waited for."""

from __future__ import annotations

from typing import Any

import anyio
from httpx import AsyncClient

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Turn


class Unguarded(Agent):
    """Waits for the rest."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: a connection that is gone brings nothing."""
        try:
            return await super().ask(client)
        except errors.ConnectionLost:
            await anyio.sleep_forever()
            raise


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("closed-stream-resolves",))
