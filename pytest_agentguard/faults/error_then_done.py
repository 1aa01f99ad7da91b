"""The provider reports an error in mid-stream, then sends the completion marker."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.error("overloaded", then="done")


FAULT = Fault(apply, seen=Seen.ERROR, modes=("stream",))
