"""A run is cancelled where a witness has seen it, on asyncio, on trio and in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from runs import HERE, Run, order

from pytest_agentguard import Behaviour, Cancel, FetchCall, Ledger, Limits
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard._runner.orders import FetchOrder, JobOrder, RunOrder
from pytest_agentguard.events import (
    FetchEnded,
    FetchStarted,
    LeftBehind,
    RunEnded,
    StopRequested,
    ToolCancelled,
    ToolStarted,
)

Go = Callable[..., Ledger]
EVERY = ("ASYNCIO", "TRIO", "SYNC")


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, AgentHost]]:
    opened = {name: AgentHost(f"stoppable.py:{name}", root=HERE) for name in (*EVERY, "POLITE")}
    yield opened
    for host in opened.values():
        host.close()


@pytest.fixture
def go(hosts: dict[str, AgentHost], tmp_path: Path) -> Go:
    """Runs one job of an agent to its end."""

    def run(name: str, prompt: str, cancel: Cancel, does: str = "return") -> Ledger:
        made = order(tmp_path, prompt, cancel=cancel)
        tool = replace(made.jobs[0].tools[0], behaviour=Behaviour(does=does, limit=20.0))
        made = replace(made, jobs=(replace(made.jobs[0], tools=(tool,)),))
        return Run(hosts[name], made).finish()

    return run


@pytest.mark.parametrize("name", EVERY)
def test_a_run_is_cancelled_while_a_tool_runs(go: Go, name: str) -> None:
    ledger = go(name, "stop", Cancel(at="tool"), does="hold")

    stop = ledger.first(StopRequested)
    assert (stop.by, stop.at, stop.again) == ("cancel", "tool", False)
    started, cancelled = ledger.first(ToolStarted), ledger.first(ToolCancelled)
    assert started.seq < stop.seq < cancelled.seq < ledger.end.seq
    assert ledger.end.how == "cancelled"
    assert ledger.of(LeftBehind) == ()


def test_a_run_that_has_a_cancel_of_its_own_is_told_by_it(go: Go) -> None:
    ledger = go("POLITE", "stop", Cancel(at="tool"))

    assert ledger.end.how == "cancelled"
    assert ledger.first(StopRequested).at == "tool"


@pytest.mark.parametrize(("name", "prompt"), [("ASYNCIO", "swallow"), ("SYNC", "swallow")])
def test_a_run_that_swallows_a_cancel_has_returned(go: Go, name: str, prompt: str) -> None:
    assert go(name, prompt, Cancel(at="tool"), does="hold").end.how == "returned"


@pytest.mark.parametrize("name", ["ASYNCIO", "TRIO"])
def test_a_run_that_makes_another_error_of_a_cancel_has_raised(go: Go, name: str) -> None:
    end = go(name, "another error", Cancel(at="tool"), does="hold").end

    assert (end.how, end.error) == ("raised", "timed out")


def test_a_run_is_cancelled_again_in_its_clean_up(go: Go) -> None:
    ledger = go("ASYNCIO", "clean up", Cancel(at="tool", again=True), does="hold")

    first, second = ledger.of(StopRequested)
    assert (second.at, second.again) == ("clean-up", True)
    assert first.seq < ledger.of(ToolCancelled)[0].seq < second.seq < ledger.end.seq
    assert ledger.end.how == "cancelled"


@pytest.mark.parametrize("name", EVERY)
def test_a_moment_can_be_given_in_seconds(go: Go, name: str) -> None:
    ledger = go(name, "stop", Cancel(after=0.05))

    assert ledger.end.how == "cancelled"
    assert len(ledger.of(StopRequested)) == 1


@pytest.mark.parametrize("name", ["ASYNCIO", "TRIO"])
def test_a_cancel_before_anything_was_sent_comes_after_the_first_step(go: Go, name: str) -> None:
    ledger = go(name, "stop", Cancel(at="before-send"), does="hold")

    assert ledger.first(ToolStarted).seq < ledger.first(StopRequested).seq
    assert ledger.end.how == "cancelled"


def test_what_a_cancelled_run_has_kept_is_asked(go: Go) -> None:
    assert go("ASYNCIO", "stop", Cancel(at="tool"), does="hold").end.kept == "kept of stop"


def test_a_moment_that_never_comes_cancels_nothing(go: Go) -> None:
    ledger = go("POLITE", "stop", Cancel(at="request", nth=9))

    assert ledger.of(StopRequested) == ()


# -- fetch tools ------------------------------------------------------------------------------------


def fetching(folder: Path, *calls: FetchCall, **options: object) -> RunOrder:
    limits = options.pop("limits", Limits())
    made = order(folder, "", **options)
    script = FetchOrder(allowed={"one": "http://127.0.0.1:9/one"}, calls=calls, token="t-1")
    job = JobOrder(
        lane="", prompt="", dialect="", base_url="", root_url="", mode="", limits=limits, fetch=script
    )
    return replace(made, jobs=(job,))


@pytest.mark.parametrize("name", EVERY)
def test_every_use_of_a_fetch_tool_is_on_record(hosts, tmp_path: Path, name: str) -> None:
    calls = (FetchCall("one"), FetchCall("fail", allowed=False), FetchCall("much"))
    ledger = Run(hosts[name], fetching(tmp_path, *calls)).finish()

    started, ended = ledger.of(FetchStarted), ledger.of(FetchEnded)
    assert [(one.call, one.input, one.allowed) for one in started] == [
        ("f1", "one", True),
        ("f2", "fail", False),
        ("f3", "much", True),
    ]
    assert [one.how for one in ended] == ["returned", "raised", "returned"]
    assert ended[0].result == "one of ['one'] with t-1"
    assert (ended[1].error, ended[1].error_type) == ("fail", "PermissionError")
    assert (ended[2].result_bytes, len(ended[2].result)) == (10_000, 4_000)
    assert [one.seq for pair in zip(started, ended, strict=True) for one in pair] == sorted(
        one.seq for one in (*started, *ended)
    )
    assert ledger.end.how == "returned"


@pytest.mark.parametrize("name", EVERY)
def test_workers_use_a_fetch_tool_side_by_side(hosts, tmp_path: Path, name: str) -> None:
    ledger = Run(hosts[name], fetching(tmp_path, FetchCall("one", workers=8))).finish()

    assert sorted(one.worker for one in ledger.of(FetchStarted)) == list("12345678")
    assert {one.how for one in ledger.of(FetchEnded)} == {"returned"}


@pytest.mark.parametrize("name", EVERY)
def test_what_is_asked_of_a_fetch_tool_after_a_cancel_comes_later(hosts, tmp_path: Path, name: str) -> None:
    calls = (FetchCall("hang"), FetchCall("one"))
    made = fetching(tmp_path, *calls, cancel=Cancel(at="before-send"))
    ledger = Run(hosts[name], made).finish()

    stop, (first, second) = ledger.first(StopRequested), ledger.of(FetchEnded)
    assert (first.how, second.how) == ("cancelled", "returned")
    assert stop.seq < first.seq < ledger.of(FetchStarted)[1].seq
    assert ledger.end.how == "cancelled"


@pytest.mark.parametrize("name", EVERY)
def test_a_deadline_that_has_passed_is_a_stop(hosts, tmp_path: Path, name: str) -> None:
    calls = (FetchCall("fail"), FetchCall("one"))
    made = fetching(tmp_path, *calls, limits=Limits(deadline=1e-9))
    ledger = Run(hosts[name], made).finish()

    stop, ended = ledger.first(StopRequested), ledger.of(FetchEnded)
    assert stop.by == "deadline"
    assert ended[0].seq < stop.seq < ledger.of(FetchStarted)[1].seq


def test_a_run_without_a_cancel_has_no_stop(go: Go, hosts, tmp_path: Path) -> None:
    ledger = Run(hosts["ASYNCIO"], fetching(tmp_path, FetchCall("one"))).finish()

    assert ledger.of(StopRequested) == ()
    assert ledger.first(RunEnded).kept is None
