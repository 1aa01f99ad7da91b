"""The whole answer leaves, its marker too, and the connection stays open."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.keep_open()


FAULT = Fault(apply, seen=Seen.WHOLE, modes=("stream",))
