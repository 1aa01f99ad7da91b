"""The provider reports an error in mid-stream."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.error("overloaded")


FAULT = Fault(apply, seen=Seen.ERROR, modes=("stream",))
