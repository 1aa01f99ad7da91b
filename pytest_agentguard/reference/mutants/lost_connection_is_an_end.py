"""Without the error for a lost connection: what had come by then is taken for the turn."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from httpx import AsyncClient

from pytest_agentguard.reference.errors import ConnectionLost, IdleTimeout
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.mutants._mending import mended
from pytest_agentguard.reference.turns import Finish, Turn


class Unguarded(Agent):
    """Makes the best of what it has."""

    async def ask(self, client: AsyncClient) -> Turn:
        """Missing: a reset or a silence is no end of a turn."""
        try:
            return await super().ask(client)
        except (ConnectionLost, IdleTimeout) as error:
            turn = error.partial or Turn()
            mends = {call.id: mended(call.arguments) for call in turn.calls}
            if None in mends.values() or not (turn.text or turn.calls):
                raise
            calls = tuple(replace(call, arguments=json.dumps(mends[call.id])) for call in turn.calls)
            return replace(turn, calls=calls, finish=Finish.CALLS if calls else Finish.STOP)


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


# what had come may be text or a call
MUTANT = Mutant(run, breaks=("no-tool-on-incomplete-stream", "no-success-on-incomplete-stream"))
