"""The provider answers with status 500."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.status(500)


FAULT = Fault(apply, seen=Seen.ERROR)
