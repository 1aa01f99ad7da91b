"""The rehearsal: a whole run, whose end matters to nobody, and of which nothing remains."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from pytest_agentguard.reference.errors import AgentError
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.rehearsal import rehearse
from pytest_agentguard.reference.threads import ThreadAgent


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_rehearsal_goes_through_a_tool_to_an_answer(backend: str) -> None:
    told: list[str] = []

    def run(job: Any) -> None:
        agent = Agent(job)
        told.append(anyio.run(agent.run, backend=backend))
        told.append(agent.messages[-1]["content"])

    rehearse(run)
    assert told == ["done", "y"]


def test_rehearsal_in_a_thread_goes_the_same_way() -> None:
    told: list[str] = []
    rehearse(lambda job: told.append(ThreadAgent(job).run()))
    assert told == ["done"]


def test_rehearsal_that_fails_leaves_no_thread() -> None:
    before = threading.active_count()

    def fails(job: Any) -> None:
        raise AgentError("nothing works")

    rehearse(fails)
    assert threading.active_count() == before
