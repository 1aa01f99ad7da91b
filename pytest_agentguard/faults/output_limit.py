"""The finish reason says that the output limit was reached."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.finish("length")


FAULT = Fault(apply, seen=Seen.WITHDRAWN)
