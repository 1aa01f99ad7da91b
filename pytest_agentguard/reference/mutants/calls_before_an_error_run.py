"""Without the error for the whole turn: calls that were whole before an error event run all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.errors import ProviderError
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.strict_json import NotJson, parse
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Saves from a failed turn what looks whole."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: an error takes the whole turn back."""
        try:
            return await super().ask(client)
        except ProviderError as error:
            turn = error.partial or Turn()
            if not turn.calls or not all(_whole(call.arguments) for call in turn.calls):
                raise
            return replace(turn, finish=Finish.CALLS)


def _whole(text: str) -> bool:
    try:
        return isinstance(parse(text), dict)
    except NotJson:
        return False


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-withdrawn-call",))
