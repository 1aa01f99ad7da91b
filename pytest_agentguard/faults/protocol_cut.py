"""The body ends against the protocol before the answer is complete."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.protocol_cut()


FAULT = Fault(apply, seen=Seen.INCOMPLETE)
