"""Without the refusal of broken arguments: what is around them goes, what is open is closed."""

from __future__ import annotations

import re
from typing import Any

from pytest_agentguard.reference.errors import BrokenArguments
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.mutants._mending import mended
from pytest_agentguard.reference.turns import Call


class Unguarded(Agent):
    """Makes an object of what can be made one."""

    def parse(self, call: Call, tool: Any) -> dict[str, Any]:
        """Missing: broken arguments stay broken."""
        try:
            return super().parse(call, tool)
        except BrokenArguments:
            found = mended(_bared(call.arguments))
            if found is None:
                raise
            return found


def _bared(text: str) -> str:
    """The text without a byte-order mark or a code fence, and with JSON's quotes."""
    text = re.sub(r"^\ufeff|^```\w*\n|\n```$", "", text)
    return text.replace("'", '"') if text.startswith("{'") else text


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-broken-arguments",))
