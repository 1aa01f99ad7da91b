"""Without the refusal of redirects, and with the token on every request."""

from __future__ import annotations

from typing import Any

import httpx

from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(FetchTool):
    """Shows its token to whoever is named."""

    def settings(self) -> dict[str, Any]:
        """Missing: the token is for the list."""
        return {**super().settings(), "follow_redirects": True, "event_hooks": {"request": [self.signed]}}

    async def signed(self, request: httpx.Request) -> None:
        """The token goes with every request, also to where a redirect leads."""
        request.headers["Authorization"] = f"Bearer {self.job.token}"


def fetch(job: Any) -> Unguarded:
    """Make it as any fetch tool."""
    return Unguarded(job)


MUTANT = Mutant(fetch=fetch, breaks=("redirect-not-followed", "no-credentials-elsewhere"))
