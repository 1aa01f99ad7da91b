"""Without the three line ends of the format: lines end where ``str.splitlines`` ends them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.sse import Decoder


class TextLines(Decoder):
    """Also ends lines at U+2028, U+2029, U+0085 and two control characters, where a chunk has them whole."""

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Missing: no other character ends a line."""
        return super().lines(_OTHER_ENDS.sub(b"\n", chunk))


class Unguarded(Agent):
    """The agent that reads this way."""

    decoder = TextLines


_OTHER_ENDS = re.compile(b"\xe2\x80\xa8|\xe2\x80\xa9|\xc2\x85|\x0b|\x0c")


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


MUTANT = Mutant(run, breaks=("same-answer-at-any-split",))
