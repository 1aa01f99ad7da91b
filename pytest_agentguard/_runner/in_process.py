"""A host that runs an agent in this process: with its debugger and coverage, without hard isolation.

For agents that only a suite's own fixtures can build. A run that hangs is recorded as killed at its deadline,
but its thread cannot be ended; memory is not measured, since the endpoint shares the process.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from pytest_agentguard._core.contracts import DIALECTS, MODES, Adapter, Job
from pytest_agentguard._core.events import RunEnded, RunStarted, WatchEnded, Witness
from pytest_agentguard._runner import outcome
from pytest_agentguard._runner.jobs import make_job, started
from pytest_agentguard._runner.orders import Hello, JobOrder, RunOrder, RunReceipt
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.journal_file import JournalFile


class InProcessHost:
    """Runs the jobs of an order in a thread each, an async agent on an event loop of its own."""

    def __init__(
        self, agent: Adapter | Callable[[Job], Any], *, backend: str = "asyncio", name: str = ""
    ) -> None:
        plain = not isinstance(agent, Adapter)
        self._adapter = (
            agent if isinstance(agent, Adapter) else Adapter(name=name, run=agent, backend=backend)
        )
        self._plain = plain

    def hello(self) -> Hello:
        """What the agent offers."""
        adapter = self._adapter
        return Hello(
            name=adapter.name,
            dialects=DIALECTS if self._plain else adapter.dialects,
            modes=MODES if self._plain else adapter.modes,
            declared=adapter.declared,
            overlap=adapter.overlap,
            plain=self._plain,
        )

    def start(self, order: RunOrder, on_ended: Callable[[str], None]) -> _Run:
        """Start every job in a daemon thread."""
        return _Run(self._adapter, order, on_ended)

    def close(self) -> None:
        """Nothing to end: threads that hang are daemons."""


class _Run:
    """One order that goes on."""

    def __init__(self, adapter: Adapter, order: RunOrder, on_ended: Callable[[str], None]) -> None:
        self._adapter = adapter
        self._order = order
        self._on_ended = on_ended
        self._journal = JournalFile(order.journal)
        self._lock = threading.Lock()
        self._open = {job.lane for job in order.jobs}
        self._begun = clock.now()
        self._at_once = threading.BoundedSemaphore(order.at_once)
        self._threads = [threading.Thread(target=self._one, args=(job,), daemon=True) for job in order.jobs]
        for thread in self._threads:
            thread.start()

    def wait(self) -> RunReceipt:
        """Wait for every job or the hard deadline, then for the observation window."""
        for thread in self._threads:
            thread.join(max(0.0, self._begun + self._order.seconds - clock.now()))
        for job in self._order.jobs:
            self._end(job.lane, {"how": "killed", "error": f"still running after {self._order.seconds} s"})
        threading.Event().wait(self._order.watch)
        self._record(WatchEnded, self._order.own_lane, seconds=self._order.watch)
        if not any(thread.is_alive() for thread in self._threads):
            self._journal.close()  # a thread that hangs may still record into it
        return RunReceipt(seconds=clock.now() - self._begun)

    def _one(self, order: JobOrder) -> None:
        with self._at_once:
            try:
                job = make_job(self._order, order, self._journal)
                self._record(RunStarted, order.lane, **started(self._order, order, self._adapter))
                fields = outcome.of_value(_finished(self._adapter.run(job), self._adapter.backend))
            except BaseException as error:  # how the agent's run ended, whatever it raised
                fields = outcome.of_exception(error)
            self._end(order.lane, fields)

    def _end(self, lane: str, fields: dict[str, Any]) -> None:
        with self._lock:
            if lane not in self._open:
                return
            self._open.discard(lane)
            self._record(RunEnded, lane, **fields)
        self._on_ended(lane)

    def _record(self, kind: Any, lane: str, /, **fields: Any) -> None:
        self._journal.record(kind, witness=Witness.RUNNER, lane=lane, **fields)


def _finished(result: Any, backend: str) -> Any:
    """The value of what ``run`` gave: an awaitable is run to its end on a loop of this thread."""
    if not inspect.isawaitable(result):
        return result

    async def whole() -> Any:
        return await result

    if backend == "trio":
        import trio

        return trio.run(whole)
    import asyncio

    return asyncio.run(whole())
