"""The stream consists of the completion marker and nothing else."""

from __future__ import annotations

from pytest_agentguard import Fault, Reply, Seen


def apply(reply: Reply) -> Reply:
    return reply.only_done()


FAULT = Fault(apply, seen=Seen.EMPTY, modes=("stream",))
