"""A bot challenge answers with status 200."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.challenge()


FAULT = Fault(apply, seen=Seen.FOREIGN)
