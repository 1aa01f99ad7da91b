"""The host that runs an agent in this process: ends, back ends, deadlines and lanes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import order

from pytest_agentguard import Adapter, Ledger, Limits, RunEnd
from pytest_agentguard._runner.in_process import InProcessHost
from pytest_agentguard._witnesses.journal_file import read
from pytest_agentguard.events import RunEnded, RunStarted, ToolFinished, ToolStarted, WatchEnded

BOUND = 10.0


def run(
    folder: Path, agent: Any, *prompts: str, backend: str = "asyncio", **options: Any
) -> tuple[Ledger, list[str]]:
    """Run ``agent`` to the end; the ledger, and the lanes whose end was told."""
    told: list[str] = []
    given = order(folder, *(prompts or ("hello",)), **options)
    InProcessHost(agent, backend=backend, name="mine").start(given, told.append).wait()
    return read(given.journal), told


def end_of(folder: Path, agent: Any, **options: Any) -> RunEnded:
    """How a run ended."""
    ledger, told = run(folder, agent, **options)
    assert told == [""]
    [end] = ledger.of(RunEnded)
    return end


def test_plain_function_says_nothing_of_itself() -> None:
    hello = InProcessHost(lambda job: "ok", name="mine").hello()
    assert (hello.name, hello.plain, hello.error) == ("mine", True, "")
    assert hello.modes == ("stream", "block")


def test_adapter_says_what_it_offers() -> None:
    adapter = Adapter(
        name="own", run=lambda job: "ok", modes=("block",), overlap=2, declared=Limits(attempts=3)
    )
    hello = InProcessHost(adapter).hello()
    assert (hello.name, hello.plain, hello.modes, hello.overlap) == ("own", False, ("block",), 2)
    assert hello.declared.attempts == 3


def test_run_is_recorded_from_its_start_to_the_end_of_the_window(tmp_path: Path) -> None:
    def agent(job: Any) -> str:
        assert Path(job.workdir).is_dir()
        [tool] = job.tools
        return f"{job.prompt} {tool.run(x='k1')}"

    ledger, told = run(tmp_path, agent)
    kinds = [type(event) for event in ledger]
    assert kinds == [RunStarted, ToolStarted, ToolFinished, RunEnded, WatchEnded]
    assert (ledger.run.agent, ledger.run.final, told) == ("mine", "final-1", [""])
    assert ledger.end.how == "returned"
    assert ledger.end.answer.startswith("hello done k")


def test_limits_that_an_adapter_keeps_by_itself_are_declared_in_its_runs(tmp_path: Path) -> None:
    declared = Limits(attempts=3, rounds=5)
    ledger, _ = run(tmp_path, Adapter(name="own", run=lambda job: "ok", declared=declared))
    assert ledger.run.limits == {"attempts": 3, "rounds": 5}


async def coroutine(job: Any) -> str:
    await asyncio.sleep(0)
    return "from asyncio"


async def trio_coroutine(job: Any) -> str:
    import trio

    await trio.sleep(0)
    return "from trio"


class Greeter:
    """An object that is called."""

    def __call__(self, job: Any) -> str:
        return "from an object"


@pytest.mark.parametrize(
    ("agent", "backend", "answer"),
    [
        (coroutine, "asyncio", "from asyncio"),
        (trio_coroutine, "trio", "from trio"),
        (lambda job: coroutine(job), "asyncio", "from asyncio"),
        (Greeter(), "asyncio", "from an object"),
    ],
)
def test_agent_may_be_sync_or_async_on_either_back_end(
    tmp_path: Path, agent: Any, backend: str, answer: str
) -> None:
    end = end_of(tmp_path, agent, backend=backend)
    assert (end.how, end.answer) == ("returned", answer)


def raising(error: BaseException) -> Callable[[Any], str]:
    def agent(job: Any) -> str:
        raise error

    return agent


@pytest.mark.parametrize(
    ("agent", "how", "error"),
    [
        (raising(ValueError("no")), "raised", "no"),
        (raising(SystemExit(3)), "raised", "3"),
        (raising(KeyboardInterrupt()), "raised", ""),
        (lambda job: RunEnd(how="limited", answer="half"), "limited", None),
        (lambda job: RunEnd(how="failed", error="gone"), "failed", "gone"),
    ],
    ids=["error", "exit", "interrupt", "limited", "failed"],
)
def test_every_end_has_its_name(tmp_path: Path, agent: Any, how: str, error: str | None) -> None:
    end = end_of(tmp_path, agent)
    assert (end.how, end.error) == (how, error)


def test_run_that_hangs_is_recorded_as_killed_and_stays_so(tmp_path: Path) -> None:
    let_go, gone = threading.Event(), threading.Event()

    def agent(job: Any) -> str:
        let_go.wait(BOUND)
        gone.set()
        return "late"

    given = order(tmp_path, "hello", seconds=0.1)
    told: list[str] = []
    InProcessHost(agent).start(given, told.append).wait()
    let_go.set()
    assert gone.wait(BOUND)
    ledger = read(given.journal)
    assert [(end.how, end.error) for end in ledger.of(RunEnded)] == [("killed", "still running after 0.1 s")]
    assert told == [""]


def test_lanes_run_side_by_side_and_end_one_by_one(tmp_path: Path) -> None:
    together = threading.Barrier(3)

    def agent(job: Any) -> str:
        together.wait(BOUND)
        return str(job.prompt)

    ledger, told = run(tmp_path, agent, "a", "b", "c")
    assert sorted(told) == ["lane-0", "lane-1", "lane-2"]
    answers = {end.lane: end.answer for end in ledger.of(RunEnded)}
    assert answers == {"lane-0": "a", "lane-1": "b", "lane-2": "c"}


def test_at_most_so_many_lanes_run_at_once(tmp_path: Path) -> None:
    lock, at_work, most = threading.Lock(), [0], [0]

    def agent(job: Any) -> str:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        threading.Event().wait(0.01)
        with lock:
            at_work[0] -= 1
        return "ok"

    run(tmp_path, agent, *"abcdefgh", at_once=2)
    assert most[0] <= 2


def test_tools_of_a_lane_record_into_that_lane(tmp_path: Path) -> None:
    def agent(job: Any) -> str:
        job.tools[0].run(x=job.prompt)
        return "ok"

    ledger, _ = run(tmp_path, agent, "a", "b")
    assert {(start.lane, start.arguments["x"]) for start in ledger.of(ToolStarted)} == {
        ("lane-0", "a"),
        ("lane-1", "b"),
    }
