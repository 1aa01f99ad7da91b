"""What a run leaves in its own process is found, and what only looks like it is not."""

from __future__ import annotations

import pytest
from runs import Start

from pytest_agentguard.events import ConnectBlocked, LeftBehind


def test_a_pending_task_is_left_behind(astart: Start) -> None:
    (left,) = astart("leave a task").finish().of(LeftBehind)

    assert (left.kind, left.what) == ("task", "forgotten: sleep")


def test_a_pending_task_belongs_to_the_lane_that_made_it(astart: Start) -> None:
    ledger = astart("hello", "leave a task", "hello").finish()

    assert [left.lane for left in ledger.of(LeftBehind)] == ["lane-1"]


def test_a_thread_that_is_no_daemon_is_left_behind(start: Start) -> None:
    (left,) = start("leave a thread").finish().of(LeftBehind)

    assert (left.kind, left.what) == ("thread", "forgotten")


def test_a_listening_socket_is_left_behind(start: Start) -> None:
    (left,) = start("listen").finish().of(LeftBehind)

    assert left.kind == "listener"
    assert left.what.startswith("listening on 127.0.0.1:")


@pytest.mark.parametrize("prompt", ["hello", "leave a daemon thread", "leave a pool", "use a tool"])
def test_nothing_is_left_behind_by_a_clean_run(start: Start, prompt: str) -> None:
    assert start(prompt).finish().of(LeftBehind) == ()


@pytest.mark.parametrize("prompt", ["hello", "leave a task that is soon done", "use a worker thread"])
def test_nothing_is_left_behind_by_a_clean_run_on_asyncio(astart: Start, prompt: str) -> None:
    assert astart(prompt).finish().of(LeftBehind) == ()


@pytest.mark.parametrize(
    ("prompt", "address"),
    [("connect elsewhere", "203.0.113.7:443"), ("look up", "api.example.com:443")],
)
def test_a_connect_outside_loopback_is_refused_and_recorded(start: Start, prompt: str, address: str) -> None:
    ledger = start("hello", prompt).finish()

    (blocked,) = ledger.of(ConnectBlocked)
    assert (blocked.address, blocked.lane) == (address, "lane-1")
    assert ledger.by_lane()["lane-1"].end.answer == "Offline"
