"""The response has status 200 and not one byte of a body."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.nothing()


FAULT = Fault(apply, seen=Seen.EMPTY)
