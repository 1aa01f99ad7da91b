"""How a run ended is recorded as it was, on threads, asyncio and trio alike."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from runs import HERE, Run, Start, order

from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard.events import MemoryMeasured, RunEnded, RunStarted, ToolFinished, ToolStarted


def test_the_start_says_what_the_agent_was_given(start: Start) -> None:
    ledger = start("use a tool", agent="mine", scenario="control").finish()

    run = ledger.run
    assert (run.agent, run.scenario, run.dialect, run.mode) == ("mine", "control", "openai-chat", "stream")
    assert run.final == "final-1"
    assert run.tools["record"]["required"] == ["x"]
    assert [type(event) for event in ledger][:4] == [RunStarted, ToolStarted, ToolFinished, RunEnded]


NO_TEXT = "<_Broken, whose text raised SystemExit>"


@pytest.mark.parametrize(
    ("prompt", "how", "answer", "error"),
    [
        ("hello", "returned", "answer to hello", None),
        ("return 5", "returned", "5", "run returned int, not str"),
        ("return None", "returned", None, "run returned NoneType, not str"),
        ("return limited", "limited", "so far", "rounds"),
        ("return nonsense", "failed", None, None),
    ],
)
def test_a_return_is_a_claim(
    start: Start, astart: Start, prompt: str, how: str, answer: str | None, error: str | None
) -> None:
    for started in (start, astart):
        end = started(prompt).finish().end

        assert (end.how, end.answer) == (how, answer)
        if how != "failed":
            assert end.error == error
        else:
            assert end.error.startswith("RunEnd how='sideways' is none of completed, limited")


@pytest.mark.parametrize(
    ("prompt", "how", "error", "chain"),
    [
        ("raise", "raised", "wrong", ("ValueError",)),
        ("raise BaseException", "raised", "base", ("BaseException",)),
        ("raise KeyboardInterrupt", "raised", "", ("KeyboardInterrupt",)),
        ("raise SystemExit", "raised", "3", ("SystemExit",)),
        ("raise without a text", "raised", NO_TEXT, ("adversaries._Broken",)),
        ("raise without a name", "raised", "odd", ("adversaries._BrokenKind",)),
        (
            "raise a broken group",
            "raised",
            "several (1 sub-exception)",
            ("adversaries._BrokenGroup", "ValueError"),
        ),
        ("raise CancelledError", "cancelled", "", ("asyncio.exceptions.CancelledError",)),
        ("raise with a cause", "raised", "gave up", ("RuntimeError", "ConnectionResetError")),
        ("raise a group", "raised", "several (2 sub-exceptions)", ("ExceptionGroup", "ValueError")),
    ],
)
def test_a_raise_keeps_its_type_and_its_causes(
    start: Start, astart: Start, prompt: str, how: str, error: str, chain: tuple[str, ...]
) -> None:
    for started in (start, astart):
        end = started(prompt).finish().end

        assert (end.how, end.error, end.error_type) == (how, error, chain[0])
        assert end.error_chain[: len(chain)] == chain


def test_an_exit_in_a_task_is_the_end_of_the_run_that_waits_for_it(astart: Start) -> None:
    end = astart("exit in a task").finish().end

    assert (end.how, end.error_type, end.error) == ("raised", "SystemExit", "4")


def test_cancelling_every_task_of_the_loop_does_not_take_the_runner_along(astart: Start) -> None:
    run = astart("cancel every task")
    ledger = run.finish()

    assert ledger.end.how == "cancelled"
    assert run.receipt.error == ""


@pytest.mark.parametrize("kind", ["run", "arun", "on_trio"])
def test_lanes_run_side_by_side_and_end_one_by_one(tmp_path: Path, kind: str) -> None:
    with AgentHost(f"adversaries.py:{kind}", root=HERE) as host:
        run = Run(host, order(tmp_path, "hang", "hello", "raise", seconds=2.0))
        ledger = run.finish()

    ends = {lane: part.end.how for lane, part in ledger.by_lane().items()}
    assert ends == {"lane-0": "killed", "lane-1": "returned", "lane-2": "raised"}
    assert run.told[-1] == "lane-0"
    assert sorted(run.told) == ["lane-0", "lane-1", "lane-2"]


@pytest.mark.parametrize("kind", ["run", "arun", "on_trio"])
def test_no_more_lanes_than_allowed_go_on_at_a_time(tmp_path: Path, kind: str) -> None:
    with AgentHost(f"adversaries.py:{kind}", root=HERE) as host:
        ledger = Run(host, order(tmp_path, *["use a tool"] * 4, at_once=1)).finish()

    kinds = [type(event) for event in ledger if isinstance(event, RunStarted | RunEnded)]
    assert kinds == [RunStarted, RunEnded] * 4


def test_a_trio_run_that_is_cancelled_inside_ends_as_it_says(tmp_path: Path) -> None:
    with AgentHost("adversaries.py:on_trio", root=HERE) as host:
        end = Run(host, order(tmp_path, "cancel")).finish().end

    assert (end.how, end.error) == ("raised", "not reached in time")


def test_limits_that_the_agent_keeps_by_itself_are_declared(tmp_path: Path) -> None:
    with AgentHost("adversaries.py:declared", root=HERE) as host:
        assert host.hello().declared.attempts == 3
        assert Run(host, order(tmp_path, "hello")).finish().run.limits == {"attempts": 3, "rounds": 7}


def test_memory_is_measured_as_growth_of_the_run(start: Start) -> None:
    big, small = start("eat 48 MiB", memory=True), start("hello", memory=True)

    (grown,) = (event.grown for event in big.finish().of(MemoryMeasured))
    (little,) = (event.grown for event in small.finish().of(MemoryMeasured))
    assert 47 * 2**20 <= grown < 64 * 2**20
    assert little < 8 * 2**20


def test_memory_is_measured_only_where_it_is_asked_for(start: Start) -> None:
    assert start("hello").finish().of(MemoryMeasured) == ()


def test_every_lane_has_a_folder_of_its_own_below_the_journal(start: Start, tmp_path: Path) -> None:
    ledger = start("where", "where").finish()

    places = [part.end.answer.split() for part in ledger.by_lane().values()]
    assert {cwd for cwd, _ in places} == {str(HERE)}
    assert len({workdir for _, workdir in places}) == 2
    assert all(workdir.startswith(str(tmp_path)) for _, workdir in places)


def test_standard_input_is_empty(start: Start) -> None:
    assert start("read stdin").finish().end.answer == "''"


def test_an_agent_is_prepared_once_and_its_service_surrounds_each_run(tmp_path: Path) -> None:
    with AgentHost("adversaries.py:with_service", root=HERE) as host:
        runs = [Run(host, order(tmp_path, "hello")) for _ in range(2)]
        answers = [run.finish().end.answer for run in runs]

    assert answers == ["prepared=1 here=False up"] * 2
    assert [run.receipt.stdout for run in runs] == ["stopped\n"] * 2


def test_a_synchronous_agent_finds_the_event_loop_that_its_own_program_would_find(tmp_path: Path) -> None:
    text = """
import asyncio, anyio
def run(job):
    return asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, "done"))
"""
    (tmp_path / "mine.py").write_text(text)
    with AgentHost("mine.py:run", root=tmp_path) as host:
        end = Run(host, order(tmp_path, "hello")).finish().end

    assert (end.how, end.answer) == ("returned", "done")


def test_a_service_that_does_not_start_ends_the_run_as_raised(tmp_path: Path) -> None:
    with AgentHost("adversaries.py:broken_service", root=HERE) as host:
        end = Run(host, order(tmp_path, "hello")).finish().end

    assert (end.how, end.error_type) == ("raised", "ZeroDivisionError")


def test_the_end_of_a_killed_run_is_recorded_before_its_sockets_close(tmp_path: Path) -> None:
    """Else the close of a connection would look like a timeout of the agent's own."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(10.0)
    port = server.getsockname()[1]
    with AgentHost("adversaries.py:run", root=HERE) as host, server:
        run = Run(host, order(tmp_path, "connect and hang", env={"PORT": str(port)}, seconds=0.5))
        with server.accept()[0] as connection:
            connection.settimeout(10.0)
            assert connection.recv(1) == b""
            ended = run.ledger.end  # read after the close was seen

    assert ended is not None
    assert ended.how == "killed"
