"""Without an end for what a run starts: where it fails or is cancelled, its process goes on."""

from __future__ import annotations

import subprocess
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant


class Unguarded(Agent):
    """Cleans up where all went well."""

    async def _rounds(self) -> str:
        """Missing: whichever way a run ends, what it has started ends with it."""
        nothing = subprocess.DEVNULL
        helper = subprocess.Popen(["sleep", "600"], stdin=nothing, stdout=nothing, stderr=nothing)
        answer = await super()._rounds()
        helper.kill()
        helper.wait()
        return answer


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("nothing-left-behind",))
