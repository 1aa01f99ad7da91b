"""The finish reason is one that no documentation has."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.finish("unknown")


FAULT = Fault(apply, seen=Seen.WITHDRAWN)
