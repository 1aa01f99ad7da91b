"""A proxy answers with an HTML page and status 200."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.html()


FAULT = Fault(apply, seen=Seen.FOREIGN)
