"""Without the index of a piece: it goes to the call that was fed last, as long as that is not ahead."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Calls


class Guessing(Calls):
    """Deals pieces out; right where calls come one after the other, wrong where they alternate."""

    _last: int | None = None

    def place(self, index: int) -> int:
        """Missing: a piece says whose it is."""
        fed = {n: len(pieces.fragments) for n, pieces in self.begun.items()}
        if self._last is None or fed[self._last] > min(fed.values()):
            self._last = min(fed, key=lambda n: fed[n])
        return self._last


class Unguarded(Agent):
    """The agent that joins this way."""

    calls = Guessing


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


# calls that mix run with other arguments than were offered
MUTANT = Mutant(run, breaks=("calls-kept-apart", "tool-runs-once"))
