"""Row 17: cost grows with what there is to do: scenarios of a battery, events of a stream, own processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence

from bench_requests_kept_alive import planned
from measuring import Cost, Row, cpu, here, interleaved

from pytest_agentguard import Reply
from pytest_agentguard._plugin.in_process import run_battery
from pytest_agentguard._runner import tree
from pytest_agentguard.adapters.reference import ADAPTER

_HALVES = (
    ("parallel-calls", "cut-before-finish", "error-in-text", "html-page", "broken-one-brace"),
    ("three-rounds", "cut-inside-value", "error-kinds", "plain-text", "broken-half-object"),
)
_OTHERS = 40  # processes that are none of ours


def rows() -> Iterator[Row]:
    """Battery, planning, tree."""
    yield _battery()
    yield _planning()
    yield _tree()


def _battery() -> Row:
    def run(scenarios: Sequence[str]) -> Callable[[], Cost]:
        chosen = ("control", *scenarios)
        return lambda: here(
            lambda: run_battery(ADAPTER, scenarios=chosen, dialects=["openai-chat"], modes=["stream"])
        )

    first, second = _HALVES
    run(first)()  # what is imported, is imported now
    costs = interleaved({"first": run(first), "second": run(second), "both": run(first + second)}, rounds=3)
    apart = cpu(costs["first"]) + cpu(costs["second"])
    return Row(
        number="17",
        what="battery CPU, all scenarios at once",
        against="its two halves, one after the other",
        budget=1.15,
        value=cpu(costs["both"]) / apart,
        detail=f"{cpu(costs['both']) * 1e3:.0f} ms, halves {apart * 1e3:.0f} ms",
    )


def _planning() -> Row:
    def make(events: int) -> Callable[[], Cost]:
        reply = Reply().text(*["word "] * events).call("record", raw=tuple(["{"] * events))

        def take() -> None:
            made = planned(reply)
            list(made.steps())
            made.delivered(len(made.body))

        return lambda: here(take)

    costs = interleaved({"n": make(1_000), "4n": make(4_000)}, rounds=5)
    return Row(
        number="17",
        what="planning a stream of 4 n events",
        against="4 times the time for n",
        budget=1.25,
        value=cpu(costs["4n"]) / cpu(costs["n"]) / 4,
        detail=f"{cpu(costs['n']) / 2_000 * 1e6:.1f} µs an event",
    )


def _tree() -> Row:
    scan = _repeated(lambda: tree.whole(os.getpid()))
    alone = [scan() for _ in range(7)]
    script = f"for n in $(seq {_OTHERS}); do sleep 60 >/dev/null 2>&1 & echo $!; done"
    started = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    return _beside(alone, scan, [int(pid) for pid in started.stdout.split()])


def _beside(alone: Sequence[Cost], scan: Callable[[], Cost], others: Sequence[int]) -> Row:
    try:
        crowded = [scan() for _ in range(7)]
    finally:
        for pid in others:
            os.kill(pid, 15)
    return Row(
        number="17",
        what=f"tree scan beside {_OTHERS} processes of others",
        against="the same without them",
        budget=1.25,
        value=cpu(crowded) / cpu(alone),
        detail=f"{cpu(alone) / 50 * 1e6:.0f} µs",
    )


def _repeated(action: Callable[[], object]) -> Callable[[], Cost]:
    def repeat() -> None:
        for _ in range(50):
            action()

    return lambda: here(repeat)
