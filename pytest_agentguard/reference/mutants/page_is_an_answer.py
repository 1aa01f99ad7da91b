"""Without the refusal of what is no reply: a page with status 200 is returned as the answer."""

from __future__ import annotations

from typing import Any

from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Finish, Turn


class Unread(Intake):
    """Takes any body with status 200 for text of the model."""

    def unexpected(self) -> Turn:
        """Missing: what was not asked for is no reply."""
        if self.head.status == 200 and self.head.media_type.startswith("text/"):
            return Turn(self.kept.decode("utf-8", "replace"), finish=Finish.STOP)
        return super().unexpected()


class Unguarded(Agent):
    """The agent that reads this way."""

    intake = Unread


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-success-on-non-stream",))
