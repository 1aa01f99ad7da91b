"""The finish reason says that the model refuses."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.finish("refusal")


FAULT = Fault(apply, seen=Seen.WITHDRAWN)
