"""Without the wait for whole characters: each chunk is decoded by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.mutants import Mutant
from pytest_agentguard.reference.sse import Decoder


class ChunkDecoder(Decoder):
    """Decodes chunks, not lines; a character that is split becomes two replacement characters."""

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Missing: a chunk may end anywhere."""
        return super().lines(chunk.decode("utf-8", "replace").encode())


class Unguarded(Agent):
    """The agent that reads this way."""

    decoder = ChunkDecoder


async def run(job: Any) -> str:
    """Run it as any agent."""
    return await Unguarded(job).run()


# arguments that were torn are other arguments
MUTANT = Mutant(run, breaks=("same-answer-at-any-split", "tool-runs-once"))
