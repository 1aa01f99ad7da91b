"""A run that was told to stop is on record as such, whatever the agent makes of the telling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from runs import HERE, Run, order

from pytest_agentguard import Behaviour, Cancel, FetchCall, Ledger
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard._runner.orders import FetchOrder, RunOrder
from pytest_agentguard.events import FetchEnded, FetchStarted, RunEnded, StopRequested

AT_ONCE = Cancel(at="before-send")


def told(name: str, made: RunOrder) -> tuple[Ledger, str]:
    """What a run left in the ledger, and what was printed to stderr."""
    with AgentHost(f"stoppable.py:{name}", root=HERE) as host:
        run = Run(host, made)
        return run.finish(), run.receipt.stderr


def uses(folder: Path, *inputs: str, cancel: Cancel) -> RunOrder:
    """A run that uses a fetch tool for each input."""
    script = FetchOrder(allowed={}, calls=tuple(FetchCall(one) for one in inputs), token="t-1")
    made = order(folder, "", cancel=cancel)
    return replace(made, jobs=(replace(made.jobs[0], prompt="", tools=(), fetch=script),))


@pytest.mark.parametrize("name", ["RAISES", "HANGS", "EXITS"])
def test_a_cancel_that_does_not_work_is_a_stop_all_the_same(tmp_path: Path, name: str) -> None:
    ledger, printed = told(name, uses(tmp_path, "waits", "waits", cancel=AT_ONCE))

    stop, (first, second) = ledger.first(StopRequested), ledger.of(FetchEnded)
    assert ledger.of(FetchStarted)[0].seq < stop.seq < first.seq
    assert (first.how, second.how) == ("returned", "returned")
    assert ("cannot be cancelled" in printed) == (name == "RAISES")


@pytest.mark.parametrize("case", ["ignores", "blocks"])
def test_an_interrupt_that_does_not_arrive_is_a_stop_all_the_same(tmp_path: Path, case: str) -> None:
    ledger, _ = told("DEAF", uses(tmp_path, case, "waits", cancel=Cancel(after=0.2)))

    (stop,) = ledger.of(StopRequested)
    assert stop.seq < ledger.of(FetchEnded)[0].seq
    assert [end.how for end in ledger.of(FetchEnded)] == ["returned", "returned"]


def test_an_interrupt_that_the_agent_takes_itself_is_on_record_once(tmp_path: Path) -> None:
    ledger, _ = told("DEAF", uses(tmp_path, "has its own", "waits", cancel=Cancel(after=0.2)))

    assert len(ledger.of(StopRequested)) == 1
    assert [end.how for end in ledger.of(FetchEnded)] == ["raised", "returned"]


def test_an_agent_that_closes_every_descriptor_is_cancelled_where_it_is_seen(tmp_path: Path) -> None:
    cancel = Cancel(at="before-send", nth=2)
    ledger, _ = told("DEAF", uses(tmp_path, "closes", "waits", cancel=cancel))

    assert [end.how for end in ledger.of(FetchEnded)] == ["returned", "cancelled"]
    assert len(ledger.of(StopRequested)) == 1


def test_an_agent_that_replaces_what_we_use_is_cancelled_all_the_same(tmp_path: Path) -> None:
    made = replace(
        uses(tmp_path, "replaces", "waits", cancel=Cancel(after=0.2)), barrier="http://127.0.0.1:9/barrier"
    )
    ledger, _ = told("DEAF", made)

    assert [end.how for end in ledger.of(FetchEnded)] == ["cancelled", "returned"]
    assert len(ledger.of(StopRequested)) == 1


@pytest.mark.parametrize("kind", ["ASYNCIO", "SYNC"])
@pytest.mark.parametrize(
    ("name", "kept", "printed"),
    [
        ("raises", None, "RuntimeError: cannot be cancelled"),
        ("exits", None, "SystemExit"),
        ("hangs", None, "kept took more than 1.0 s"),
        ("bytes", None, "kept gave bytes, not str"),
        ("nothing", None, ""),
        ("empty", "", ""),
        ("later", "kept a moment later", ""),
    ],
)
def test_what_was_kept_is_no_part_of_how_the_run_ended(
    tmp_path: Path, kind: str, name: str, kept: str | None, printed: str
) -> None:
    made = order(tmp_path, "stop", cancel=Cancel(at="tool"))
    tool = replace(made.jobs[0].tools[0], behaviour=Behaviour(does="hold", limit=9.0))
    made = replace(made, jobs=(replace(made.jobs[0], tools=(tool,)),))
    ledger, stderr = told(f"{kind}_{name}", made)

    (end,) = ledger.of(RunEnded)
    assert (end.how, end.kept) == ("cancelled", kept)
    assert printed in stderr


@pytest.mark.parametrize("name", ["ASYNCIO_IN_PLAIN", "TRIO_IN_PLAIN"])
def test_an_async_tool_of_a_synchronous_agent_runs_on_a_loop_of_its_own(tmp_path: Path, name: str) -> None:
    ledger, _ = told(name, uses(tmp_path, "hang", "one", cancel=Cancel(after=1.0)))

    first, second = ledger.of(FetchEnded)
    assert (first.how, second.how) == ("cancelled", "returned")
    assert second.result == "one of [] with t-1"
    assert len(ledger.of(StopRequested)) == 1


@pytest.mark.parametrize("name", ["PLAIN_IN_ASYNCIO", "PLAIN_IN_TRIO"])
def test_a_plain_tool_on_a_loop_that_could_not_be_told_has_not_been_told(tmp_path: Path, name: str) -> None:
    ledger, _ = told(name, uses(tmp_path, "waits", "waits", cancel=AT_ONCE))

    assert ledger.of(StopRequested) == ()
    assert [end.how for end in ledger.of(FetchEnded)] == ["returned", "returned"]
