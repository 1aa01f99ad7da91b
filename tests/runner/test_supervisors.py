"""A supervisor takes one run after another for as long as they end cleanly; no other one outlives its run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from runs import HERE, Run, order
from test_host import BOUND, agent, alive, below, wait_for_start, wait_until_dead

from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard.events import RunEnded, WatchEnded

ASK = "who is above"


def answer(host: AgentHost, folder: Path, prompt: str, **options: float) -> str:
    return Run(host, order(folder, prompt, **options)).finish().end.answer


def supervisor(host: AgentHost, folder: Path) -> int:
    return int(answer(host, folder, ASK, watch=0.0))


def wait_for_descriptors(pid: int, count: int) -> None:
    deadline = time.monotonic() + BOUND
    while psutil.Process(pid).num_fds() != count:
        assert time.monotonic() < deadline, f"descriptors={psutil.Process(pid).num_fds()}"
        time.sleep(0.005)


@pytest.mark.parametrize("kind", ["run", "arun", "on_trio"])
def test_runs_one_after_another_have_one_supervisor(tmp_path: Path, kind: str) -> None:
    with AgentHost(f"adversaries.py:{kind}", root=HERE) as host:
        pids = {supervisor(host, tmp_path) for _ in range(5)}
        assert set(below(host._process.pid)) == pids

    assert len(pids) == 1


def test_runs_side_by_side_have_a_supervisor_each_and_later_ones_share_them(
    host: AgentHost, tmp_path: Path
) -> None:
    runs = [Run(host, order(tmp_path, ASK, watch=0.5)) for _ in range(3)]
    pids = {run.finish().end.answer for run in runs}

    assert len(pids) == 3
    assert {answer(host, tmp_path, ASK, watch=0.0) for _ in range(3)} <= pids


def test_a_run_that_raised_is_as_clean_as_any(host: AgentHost, tmp_path: Path) -> None:
    before = supervisor(host, tmp_path)
    assert Run(host, order(tmp_path, "raise")).finish().end.how == "raised"

    assert supervisor(host, tmp_path) == before


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("hang", {"seconds": 0.3}),
        ("exit", {}),
        ("close everything", {}),
        ("leave a daemon", {}),
        ("write everywhere", {}),
    ],
)
def test_a_supervisor_ends_with_a_run_that_was_not_clean(
    host: AgentHost, tmp_path: Path, prompt: str, options: dict[str, float]
) -> None:
    before = supervisor(host, tmp_path)
    run = Run(host, order(tmp_path, prompt, **options))
    assert run.finish().end is not None
    assert run.receipt.error == ""

    wait_until_dead([before])
    assert supervisor(host, tmp_path) != before


def test_a_run_that_nobody_waits_for_takes_its_supervisor_along(host: AgentHost, tmp_path: Path) -> None:
    before = supervisor(host, tmp_path)
    run = Run(host, order(tmp_path, "hang"))
    wait_for_start(run)
    assert run.handle._channel is not None
    run.handle._channel.shutdown(2)

    wait_until_dead([before])
    assert supervisor(host, tmp_path) != before


def test_each_run_that_imports_anew_has_a_supervisor_of_its_own(tmp_path: Path) -> None:
    text = """
import os, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
def run(job): return str(os.getppid())
"""
    with agent(tmp_path, text) as host:
        assert host.hello().fresh
        assert len({supervisor(host, tmp_path) for _ in range(2)}) == 2


def test_memory_is_measured_below_a_supervisor_that_has_had_no_other_run(
    host: AgentHost, tmp_path: Path
) -> None:
    before = supervisor(host, tmp_path)

    assert answer(host, tmp_path, ASK, memory=True) != str(before)


def test_an_order_too_long_to_be_handed_over_is_carried_out(host: AgentHost, tmp_path: Path) -> None:
    assert supervisor(host, tmp_path)
    prompts = [ASK, *(f"{n} " + "x" * 4096 for n in range(200))]

    ledger = Run(host, order(tmp_path, *prompts)).finish()

    assert len(ledger.of(RunEnded)) == 201
    assert {end.how for end in ledger.of(RunEnded)} == {"returned"}


def test_killing_the_supervisor_costs_that_run_only(host: AgentHost, tmp_path: Path) -> None:
    before = supervisor(host, tmp_path)
    beside = Run(host, order(tmp_path, ASK, watch=0.5))
    wait_for_start(beside)
    run = Run(host, order(tmp_path, "kill its parent"))
    end = run.finish().end

    assert (end.how, end.code, run.told) == ("signalled", signal.SIGKILL, [""])
    assert run.receipt.error == "supervisor: process ended by SIGKILL"
    assert beside.finish().end.answer == str(before)
    assert [supervisor(host, tmp_path) for _ in range(2)] == [before, before]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_waiting_supervisor_that_is_killed_is_replaced(
    host: AgentHost, tmp_path: Path, number: signal.Signals
) -> None:
    for _ in range(10):  # now and then the order is sent before the death is noticed
        before = supervisor(host, tmp_path)
        os.kill(before, number)
        run = Run(host, order(tmp_path, ASK, watch=0.0))
        ledger = run.finish()

        assert ledger.end.answer not in (None, str(before))
        assert (run.receipt.error, len(ledger.of(WatchEnded))) == ("", 1)


def test_an_order_that_a_killed_supervisor_has_not_read_goes_to_another(
    host: AgentHost, tmp_path: Path
) -> None:
    before = supervisor(host, tmp_path)
    os.kill(before, signal.SIGSTOP)
    run = Run(host, order(tmp_path, ASK, watch=0.0))
    beside = answer(host, tmp_path, ASK, watch=0.0)  # the warm parent has handed out the other one by now
    assert not run.handle.done()
    os.kill(before, signal.SIGKILL)
    ledger = run.finish()

    assert ledger.end.answer == beside
    assert (run.receipt.error, len(ledger.of(WatchEnded))) == ("", 1)


def test_nothing_of_a_run_stays_open(host: AgentHost, tmp_path: Path) -> None:
    pid = supervisor(host, tmp_path)
    descriptors = answer(host, tmp_path, "which descriptors", watch=0.0)
    count = psutil.Process(host._process.pid).num_fds()
    for _ in range(50):
        assert answer(host, tmp_path, "print", watch=0.0) == "printed"

    assert supervisor(host, tmp_path) == pid
    assert answer(host, tmp_path, "which descriptors", watch=0.0) == descriptors
    assert psutil.Process(host._process.pid).num_fds() == count
    wait_for_descriptors(pid, 4)  # the standard streams and its link


def test_an_agent_holds_no_way_to_a_supervisor_but_its_notes(host: AgentHost, tmp_path: Path) -> None:
    """Three standard streams, the notes, the journal, and the folder that lists them."""
    side = [Run(host, order(tmp_path, ASK, watch=0.5)) for _ in range(3)]
    for run in side:
        wait_for_start(run)

    assert len(answer(host, tmp_path, "which descriptors").split(",")) == 6
    assert all(run.finish().end.how == "returned" for run in side)
    assert len(answer(host, tmp_path, "which descriptors").split(",")) == 6


def test_an_agent_collects_garbage_although_its_supervisor_does_not(host: AgentHost, tmp_path: Path) -> None:
    assert [answer(host, tmp_path, "does it collect", watch=0.0) for _ in range(2)] == ["True", "True"]


def test_an_import_that_switched_collections_off_is_heeded(tmp_path: Path) -> None:
    text = "import gc\ngc.disable()\ndef run(job): return str(gc.isenabled())"
    with agent(tmp_path, text) as host:
        assert [answer(host, tmp_path, "hello", watch=0.0) for _ in range(2)] == ["False", "False"]


def test_an_import_that_reset_the_signal_of_a_broken_pipe_harms_nobody(tmp_path: Path) -> None:
    text = """
import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
def run(job): return str(os.getppid())
"""
    with agent(tmp_path, text) as host:
        for _ in range(5):
            os.kill(supervisor(host, tmp_path), signal.SIGKILL)
        assert alive(supervisor(host, tmp_path))


def test_close_ends_supervisors_that_wait(tmp_path: Path) -> None:
    host = AgentHost("adversaries.py:run", root=HERE)
    runs = [Run(host, order(tmp_path, ASK, watch=0.3)) for _ in range(2)]
    pids = [int(run.finish().end.answer) for run in runs]
    os.kill(pids[0], signal.SIGSTOP)
    host.close()

    wait_until_dead([host._process.pid, *pids])


def test_supervisors_that_wait_go_with_their_warm_parent(tmp_path: Path) -> None:
    with AgentHost("adversaries.py:run", root=HERE) as host:
        runs = [Run(host, order(tmp_path, ASK, watch=0.3)) for _ in range(2)]
        pids = [int(run.finish().end.answer) for run in runs]
        host._process.kill()

        wait_until_dead(pids)
