"""Without the strictness of JSON: NaN, infinities and numbers beyond every float are accepted."""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_agentguard.reference.errors import BrokenArguments
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.turns import Call


class Unguarded(Agent):
    """Reads numbers as Python does."""

    def parse(self, call: Call, tool: Any) -> dict[str, Any]:
        """Missing: NaN is not JSON."""
        try:
            return super().parse(call, tool)
        except BrokenArguments:
            if not _NO_NUMBER.search(call.arguments):
                raise
            found: dict[str, Any] = json.loads(call.arguments)
            return found


_NO_NUMBER = re.compile(r": *(NaN|-?Infinity|-?\d+e\d{3,})")


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("no-tool-on-invalid-arguments",))
