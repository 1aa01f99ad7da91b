"""The finish reason says that a content filter stopped the answer."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.finish("filter")


FAULT = Fault(apply, seen=Seen.WITHDRAWN)
