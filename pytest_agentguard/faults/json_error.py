"""The provider reports an error in a body with status 200."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.json_error("server")


FAULT = Fault(apply, seen=Seen.ERROR)
