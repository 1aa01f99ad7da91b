"""Without the kinds of error: whatever the provider reports, the request has failed."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.errors import ProviderError
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Turn


class Unguarded(Agent):
    """Says only that it failed."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: the caller learns what to do about it."""
        try:
            return await super().ask(client)
        except ProviderError:
            raise ProviderError("the request failed") from None


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


# an error with status 200 was no reply, and the caller does not learn what came instead
MUTANT = Mutant(run, breaks=("error-keeps-its-kind", "no-success-on-non-stream"))
