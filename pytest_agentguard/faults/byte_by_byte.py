"""Every byte of the body comes in a chunk of its own."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.split(each=1)


FAULT = Fault(apply, seen=Seen.WHOLE)
