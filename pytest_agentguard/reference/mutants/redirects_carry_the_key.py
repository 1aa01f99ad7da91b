"""Without the refusal of redirects, and with the key on every request: both go elsewhere."""

from __future__ import annotations

from typing import Any

import httpx

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Shows its key to whoever is named."""

    def settings(self) -> dict[str, Any]:
        """Missing: key and prompt are for one place."""
        return {**super().settings(), "follow_redirects": True, "event_hooks": {"request": [self.signed]}}

    async def signed(self, request: httpx.Request) -> None:
        """The key goes with every request, also to where a redirect leads."""
        request.headers.update(self.dialect.headers(self.job.endpoint.api_key))


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("redirect-not-followed", "no-prompt-elsewhere", "no-credentials-elsewhere"))
