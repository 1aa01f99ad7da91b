"""Without the refusal of error events: the text before one is returned as the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.errors import ProviderError
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Takes an error in mid-stream for the end of the text."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: an error of the provider ends the run."""
        try:
            return await super().ask(client)
        except ProviderError as error:
            if error.partial is None or error.partial.calls or not error.partial.text:
                raise
            return replace(error.partial, finish=Finish.STOP)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-success-on-error-event",))
