"""The body stops, and only keep-alives go on."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.drip()


FAULT = Fault(apply, seen=Seen.SILENT)
