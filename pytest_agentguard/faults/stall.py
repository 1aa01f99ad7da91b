"""The body stops before the answer is complete, and the connection stays."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.stall()


FAULT = Fault(apply, seen=Seen.SILENT)
