"""The connection is reset before the answer is complete."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.reset()


FAULT = Fault(apply, seen=Seen.INCOMPLETE)
