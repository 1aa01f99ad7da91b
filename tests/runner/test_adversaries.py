"""Whatever an agent does to itself, it costs its own run and nobody else's."""

from __future__ import annotations

import signal

import pytest
from runs import Start

from pytest_agentguard.events import (
    LeftBehind,
    ProcessOutput,
    RunEnded,
    ToolFinished,
    ToolStarted,
    WatchEnded,
)

HANGS = {"seconds": 0.5}


def assert_only_this_is_lost(start: Start, prompt: str, **options: float) -> RunEnded:
    """The run ends as it must while another one of the same parent goes on and a later one starts."""
    bad = start(prompt, **options)
    beside = start("hello")
    assert beside.finish().end.answer == "answer to hello"
    ledger = bad.finish()
    after = start("again")
    assert after.finish().end.answer == "answer to again"
    assert bad.told == [""]
    assert len(ledger.of(RunEnded)) == 1
    assert [type(event) for event in ledger][-1] is WatchEnded
    assert len(ledger.of(WatchEnded)) == 1
    return ledger.end


@pytest.mark.parametrize(
    "prompt", ["hang", "stop itself", "ignore signals and hang", "close everything and hang"]
)
def test_a_run_that_hangs_is_killed_at_its_hard_deadline(start: Start, prompt: str) -> None:
    end = assert_only_this_is_lost(start, prompt, **HANGS)

    assert end.how == "killed"
    assert end.error == "not ended after seconds=0.5"


@pytest.mark.parametrize("prompt", ["hang", "stop itself"])
def test_a_hanging_run_outlasts_a_good_one_on_asyncio(astart: Start, prompt: str) -> None:
    bad = astart(prompt, seconds=2.0)
    good = astart("hello")

    assert good.finish().end.answer == "answer to hello"
    assert not bad.handle.done()
    assert bad.finish().end.how == "killed"


def test_a_blocked_loop_is_killed(astart: Start) -> None:
    run = astart("ignore signals and hang", **HANGS)

    assert run.finish().end.how == "killed"


def test_a_loop_that_is_blocked_during_the_window_is_left_behind(astart: Start) -> None:
    ledger = astart("block the loop later").finish()

    assert ledger.end.how == "returned"
    assert [left.what for left in ledger.of(LeftBehind)] == [
        "the process did not reach the end of the observation window"
    ]


def test_an_exit_is_recorded_with_its_status(start: Start) -> None:
    end = assert_only_this_is_lost(start, "exit")

    assert (end.how, end.code) == ("exited", 0)
    assert end.error == "process exited with status 0 before the run ended"


def test_an_exit_after_all_descriptors_were_closed_is_recorded(start: Start) -> None:
    end = assert_only_this_is_lost(start, "close everything and exit")

    assert (end.how, end.code) == ("exited", 3)


@pytest.mark.parametrize(
    ("prompt", "number"),
    [
        ("segfault", signal.SIGSEGV),
        ("kill itself", signal.SIGKILL),
        ("kill its group", signal.SIGKILL),
    ],
)
def test_a_signal_is_recorded_with_its_number(start: Start, prompt: str, number: int) -> None:
    end = assert_only_this_is_lost(start, prompt)

    assert (end.how, end.code) == ("signalled", number)


def test_a_run_whose_supervisor_is_killed_ends_and_leaves_nothing(start: Start) -> None:
    end = assert_only_this_is_lost(start, "kill its parent")

    assert (end.how, end.code) == ("signalled", signal.SIGKILL)
    assert end.error == "supervisor: process ended by SIGKILL"


def test_eating_4_gib_is_a_memory_error_of_that_run(start: Start) -> None:
    end = assert_only_this_is_lost(start, "eat 4 GiB")

    assert (end.how, end.error_type) == ("raised", "MemoryError")


def test_a_process_that_outlives_the_run_is_left_behind(start: Start) -> None:
    runs = [start(prompt) for prompt in ("leave a child", "leave a daemon", "exit above a daemon")]

    for run, how in zip(runs, ("returned", "returned", "exited"), strict=True):
        ledger = run.finish()
        assert ledger.end.how == how
        assert [left.kind for left in ledger.of(LeftBehind)] == ["process"]
        assert run.receipt.error == ""


def test_output_of_any_size_is_drained_and_kept_up_to_its_bound(start: Start) -> None:
    run = start("print")
    ledger = run.finish()

    assert ledger.end.answer == "printed"
    out, err = ledger.of(ProcessOutput)
    assert (out.stream, out.total, len(out.text)) == ("stdout", 1_000_000, 256 * 1024)
    assert (err.stream, err.text) == ("stderr", "\\xff\\xfe[]{\n")
    assert run.receipt.stdout == out.text


def test_garbage_on_every_descriptor_harms_nobody(start: Start) -> None:
    run = start("write everywhere")
    ledger = run.finish()

    assert (ledger.end.how, ledger.end.answer) == ("returned", "written")
    assert run.told == [""]
    assert run.receipt.error == ""


def test_a_run_that_closes_every_descriptor_still_ends(start: Start) -> None:
    end = assert_only_this_is_lost(start, "close everything")

    assert (end.how, end.answer) == ("returned", "closed")


def test_facts_never_land_in_a_file_of_the_agent(start: Start, tmp_path) -> None:
    run = start("close everything and reopen")
    ledger = run.finish()

    assert ledger.end.answer == "closed"
    assert len(ledger.of(ToolStarted)) == 1
    assert [file.read_bytes() for file in tmp_path.rglob("mine")] == [b""]


def test_a_loop_whose_descriptors_are_gone_ends_its_own_run(astart: Start) -> None:
    bad = astart("close everything")
    good = astart("hello")

    assert good.finish().end.answer == "answer to hello"
    assert bad.finish().end.how == "returned"
    assert bad.told == [""]
    assert astart("again").finish().end.answer == "answer to again"


@pytest.mark.parametrize("prompt", ["write facts", "replace os", "replace json"])
def test_facts_are_recorded_whatever_the_agent_does_to_its_process(start: Start, prompt: str) -> None:
    ledger = start(prompt).finish()

    assert [started.arguments for started in ledger.of(ToolStarted)] == [{"x": "1"}]
    assert [(end.how, end.answer) for end in ledger.of(RunEnded)] == [
        ("returned", ledger.first(ToolFinished).result)
    ]


def test_the_window_lasts_although_the_agent_has_frozen_its_clock(start: Start) -> None:
    ledger = start("freeze time", watch=0.2).finish()

    assert ledger.end.answer == "frozen"
    assert ledger.first(WatchEnded).seconds >= 0.2
    assert [event.t for event in ledger] == sorted(event.t for event in ledger)


def test_the_deadline_holds_although_the_agent_has_frozen_its_clock(start: Start) -> None:
    assert start("freeze time and hang", **HANGS).finish().end.how == "killed"
