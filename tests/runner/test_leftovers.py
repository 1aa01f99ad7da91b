"""What a run leaves in its own process is found, and what only looks like it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import HERE, Run, Start, order

from pytest_agentguard._runner.host import AgentHost
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


def test_each_thing_is_left_with_where_it_was_made(start: Start, astart: Start) -> None:
    listener, thread, task = (
        begin(prompt).finish().first(LeftBehind)
        for begin, prompt in ((start, "listen"), (start, "leave a child"), (astart, "leave a poller"))
    )

    assert _place(listener.created) == "_listen"
    assert _place(thread.created) == "_leave_a_child"
    assert _place(task.created) in ("arun", "_poll")  # from Python 3.12 on we make no tasks


def test_files_are_left_behind(start: Start) -> None:
    ledger = start("leave files").finish()

    found = {
        (left.kind, left.what.rpartition("/")[2]): _place(left.created) for left in ledger.of(LeftBehind)
    }
    assert found == {
        ("file", "report open for writing"): "_leave_files",
        ("temporary", ledger.end.answer.rpartition("/")[2]): "_leave_files",
        ("temporary", "tmp.of-a-program"): "",
    }


def test_each_run_has_its_own_folder_for_temporary_files(start: Start) -> None:
    first, second = (start("where are temporary files") for _ in range(2))

    (one, same), (other, _) = (run.finish().end.answer.split() for run in (first, second))
    assert one == same != other
    assert one.startswith(f"{first.journal.parent}/")


def test_a_system_task_of_trio_is_left_behind(tmp_path: Path) -> None:
    with AgentHost("adversaries.py:on_trio", root=HERE) as host:
        run = Run(host, order(tmp_path, "leave a system task", "hello"))
        (left,) = run.finish().of(LeftBehind)

    assert (left.lane, left.kind, left.what) == ("", "task", "forgotten")


@pytest.mark.parametrize("prompt", ["hello", "leave a daemon thread", "leave a pool", "use a tool"])
def test_nothing_is_left_behind_by_a_clean_run(start: Start, prompt: str) -> None:
    assert start(prompt).finish().of(LeftBehind) == ()


@pytest.mark.parametrize(
    "prompt",
    ["hello", "leave a task that is soon done", "leave a stream that nobody holds", "use a worker thread"],
)
def test_nothing_is_left_behind_by_a_clean_run_on_asyncio(astart: Start, prompt: str) -> None:
    assert astart(prompt).finish().of(LeftBehind) == ()


@pytest.mark.parametrize(
    ("prompt", "address", "what"),
    [
        ("connect elsewhere", "203.0.113.7:443", "connect"),
        ("look up", "api.example.com:443", "lookup"),
    ],
)
def test_a_connect_outside_loopback_is_refused_and_recorded(
    start: Start, prompt: str, address: str, what: str
) -> None:
    ledger = start("hello", prompt).finish()

    (blocked,) = ledger.of(ConnectBlocked)
    assert (blocked.address, blocked.lane, blocked.what) == (address, "lane-1", what)
    assert ledger.by_lane()["lane-1"].end.answer == "Offline"


def _place(created: str) -> str:
    """The function, where the file is that of the agent."""
    place, _, function = created.partition(" in ")
    assert not place or place.startswith("adversaries.py:")
    return function
