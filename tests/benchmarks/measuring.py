"""What the benchmarks have in common: rows of the table, costs in CPU and wall time, interleaved rounds."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

CHILD_SECONDS = 120.0  # how long one child process may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: what was measured against what, and the budget that it has to keep.

    ``value`` None: it could not be measured, and ``detail`` says why.
    """

    number: str
    what: str
    against: str
    budget: float
    value: float | None
    unit: str = "×"
    at_least: bool = False
    detail: str = ""

    @property
    def verdict(self) -> str:
        """``held``, ``missed`` or ``not measured``."""
        if self.value is None:
            return "not measured"
        is_kept = self.value >= self.budget if self.at_least else self.value <= self.budget
        return "held" if is_kept else "missed"


@dataclass(frozen=True, slots=True)
class Cost:
    """What an action took: CPU of every thread or child that did it, and wall time, in seconds."""

    cpu: float
    wall: float


def here(action: Callable[[], object]) -> Cost:
    """The cost of ``action`` in this process, all threads included."""
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def child(command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> Cost:
    """The cost of a child process with everything below it; it has to succeed."""
    log = cwd / "child.log"
    begun = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        deadline = threading.Timer(CHILD_SECONDS, process.kill)
        deadline.start()
        _, status, usage = os.wait4(process.pid, 0)
        deadline.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - begun)


def interleaved(actions: Mapping[str, Callable[[], Cost]], *, rounds: int) -> dict[str, list[Cost]]:
    """The costs of each action in every round. The order changes from round to round, the same each time."""
    order, shuffle = list(actions), random.Random(0).shuffle
    found: dict[str, list[Cost]] = {name: [] for name in actions}
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            found[name].append(actions[name]())
    return found


def cpu(costs: Sequence[Cost]) -> float:
    """The median CPU time."""
    return median(cost.cpu for cost in costs)


def wall(costs: Sequence[Cost]) -> float:
    """The median wall time."""
    return median(cost.wall for cost in costs)


def overhead(costs: Mapping[str, Sequence[Cost]], name: str, base: str) -> float:
    """The median of what ``name`` takes more CPU than ``base`` in the same round."""
    return median(one.cpu - other.cpu for one, other in zip(costs[name], costs[base], strict=True))


def percentile(values: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * percent // 100) - 1))]


def thread_clock(name: str) -> Callable[[], float]:
    """A clock of the CPU time of the one living thread whose name begins with ``name``."""
    (thread,) = [one for one in threading.enumerate() if one.name.startswith(name)]
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    return lambda: time.clock_gettime(clock)


def python(*arguments: str) -> list[str]:
    """A command that runs this Python."""
    return [sys.executable, *arguments]


@contextmanager
def without_collector() -> Iterator[None]:
    """Run without garbage collection, as ``timeit`` does."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
