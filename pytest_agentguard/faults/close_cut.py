"""The connection closes, which is the only end the body has, before the answer is complete."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.cut(framing="close")


FAULT = Fault(apply, seen=Seen.INCOMPLETE)
