"""Lines of the stream end with CR and LF, and chunks begin between the two."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.newlines("\r\n").split(by="newline")


FAULT = Fault(apply, seen=Seen.WHOLE, modes=("stream",))
