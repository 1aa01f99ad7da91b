"""Without the error for a missing marker: a turn with a finish reason and none is passed over."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.errors import IncompleteReply
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Ends its run where the turn has no marker, as if there had been nothing to do."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: whoever does not use a turn says so."""
        try:
            return await super().ask(client)
        except IncompleteReply as error:
            if error.partial is None or error.partial.finish is None:
                raise
            return Turn("(nothing to do)", finish=Finish.STOP)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("nothing-dropped-in-silence",))
