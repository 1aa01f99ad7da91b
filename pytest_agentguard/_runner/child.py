"""The process of one run: gives the agent its jobs, and records how each of them ended."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from pytest_agentguard._core import limits
from pytest_agentguard._core.contracts import Adapter, FetchJob, Job, is_async
from pytest_agentguard._core.events import (
    Event,
    LeftBehind,
    MemoryMeasured,
    RunEnded,
    RunStarted,
    Witness,
    WitnessFailed,
)
from pytest_agentguard._runner import leftovers, outcome, system, telling, tree
from pytest_agentguard._runner.fetching import Fetching
from pytest_agentguard._runner.guard import Guard
from pytest_agentguard._runner.jobs import make_job, started
from pytest_agentguard._runner.orders import JobOrder, RunOrder, as_json
from pytest_agentguard._runner.stopping import Canceller, Stop, Way, by_call, by_interrupt, cancellable
from pytest_agentguard._runner.tasks import TaskBirths, finish, in_spite_of_cancels
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.journal_file import JournalFile
from pytest_agentguard._witnesses.leaks import trio_tasks

# taken now, since an agent may replace what is in a module
_write, _fstat = os.write, os.fstat

_lane: contextvars.ContextVar[str | None] = contextvars.ContextVar("agentguard_lane", default=None)


class Notes:
    """The pipe to the supervisor: one line per note. The agent may have closed it; then nobody is told."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._inode = os.fstat(descriptor).st_ino

    def send(self, what: str, lane: str = "") -> bool:
        """``ready``, ``ended`` with a lane, ``spawned``, ``watched``; False where nobody can be told."""
        try:
            if _fstat(self._descriptor).st_ino != self._inode:
                return False
            _write(self._descriptor, as_json([what, lane]).encode() + b"\n")
        except OSError:
            return False
        return True

    def spawned(self, command: str, place: str) -> None:
        """A command becomes a process, which was asked for at this place."""
        self.send("spawned", as_json([command, place]))


class Child:
    """One run, from the first job to the end of the observation window."""

    def __init__(self, order: RunOrder, adapter: Adapter, notes: Notes, guard: Guard) -> None:
        self._order = order
        self._adapter = adapter
        self._notes = notes
        self._journal = JournalFile(order.journal)
        self._open = {job.lane for job in order.jobs}
        self._lock = threading.Lock()
        self._resident = 0
        self._stop = Stop(self._journal, order.barrier, order.jobs[0].lane)
        self._canceller = Canceller.of(order, self._stop, self._journal)
        guard.record_in(self._journal, self._current_lane)

    def run(self) -> NoReturn:
        """Run every job, watch, say that it is over, and wait to be killed."""
        if self._order.memory:
            system.reset_peak()
            self._resident = system.resident_bytes()
        self._before = leftovers.Before(self._order, self._notes.spawned)
        if self._canceller is not None:
            self._before.mine.add(self._canceller.thread)
        try:
            if not is_async(self._adapter.run):
                self._run_in_threads()
            elif self._adapter.backend == "trio":
                self._run_in_trio()
            else:
                self._run_in_asyncio()
        except BaseException as error:  # a loop that broke down
            self._broke(error)
            self._after_jobs()
            clock.sleep(self._order.watch)
        self._leave(self._before.left(self._order.own_lane))
        self._over()

    # -- ways to run ---------------------------------------------------------------------------------

    def _run_in_threads(self) -> None:
        """A synchronous agent: the only job in the main thread, several in a thread each."""
        jobs: SimpleQueue[JobOrder] = SimpleQueue()
        for job in self._order.jobs:
            jobs.put(job)
        self._call(self._adapter.start)
        if len(self._order.jobs) == 1:
            self._take(jobs)
        else:
            count = min(self._order.at_once, len(self._order.jobs))
            workers = [threading.Thread(target=self._take, args=(jobs,), daemon=True) for _ in range(count)]
            self._before.mine.update(workers)
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        self._call(self._adapter.stop)
        self._after_jobs()
        clock.sleep(self._order.watch)

    def _take(self, jobs: SimpleQueue[JobOrder]) -> None:
        while True:
            try:
                job = jobs.get_nowait()
            except Empty:
                return
            contextvars.copy_context().run(self._one, job)

    def _one(self, order: JobOrder) -> None:
        job = self._begin(order)
        if job is None:
            return
        canceller = self._canceller_of(order)
        fetching = None if order.fetch is None else self._fetching(order, job)
        try:
            if canceller is not None:
                canceller.aim(*self._way(job if fetching is None else fetching.job))
            if fetching is not None:
                fields = fetching.run()
            else:
                result = self._adapter.run(job)
                if inspect.isawaitable(result):
                    result = finish(result, self._adapter.backend)
                fields = outcome.of_value(result)
        except BaseException as error:  # SystemExit ends a run like any exception
            fields = outcome.of_exception(error, stopped=canceller is not None and canceller.fired)
        if canceller is not None:
            canceller.end()
            kept = self._kept(job)
            if kept is not None:
                fields["kept"] = telling.kept(
                    kept, self._before.mine, lambda value: finish(value, self._adapter.backend)
                )
        self._end(order.lane, fields)

    async def _one_async(self, order: JobOrder) -> None:
        job = self._begin(order)
        if job is None:
            return
        canceller = self._canceller_of(order)
        try:
            if order.fetch is not None:
                fields = await self._fetching(order, job).run_async()
            elif canceller is not None:
                fields = await cancellable(lambda: self._adapter.run(job), canceller, self._adapter.backend)
            else:
                fields = outcome.of_value(await self._adapter.run(job))
        except BaseException as error:  # a cancellation that comes out of the run is how it ended
            fields = outcome.of_exception(error)
        if canceller is not None:
            canceller.end()
            kept = self._kept(job)
            if kept is not None:
                fields["kept"] = await telling.akept(kept, self._before.mine, self._adapter.backend)
        self._end(order.lane, fields)

    def _way(self, job: Job | FetchJob) -> Way:
        """How a synchronous run is cancelled."""
        cancel = self._adapter.cancel
        if cancel is not None:
            return by_call(lambda: cancel(job))
        assert self._canceller is not None
        return by_interrupt(is_waiting=self._canceller.is_at_a_wait)

    def _canceller_of(self, order: JobOrder) -> Canceller | None:
        """What cancels this job: the first of a run, where the run says so."""
        return self._canceller if order is self._order.jobs[0] else None

    def _fetching(self, order: JobOrder, job: Job) -> Fetching:
        return Fetching(
            self._adapter, order, job.workdir, self._journal, self._stop, self._canceller_of(order)
        )

    def _kept(self, job: Job) -> Callable[[], Any] | None:
        """What gives the text that a cancelled run says it has kept; None where nobody is to be asked."""
        asked = self._adapter.kept
        if asked is None or self._canceller is None or not self._canceller.fired:
            return None
        return lambda: asked(job)

    def _run_in_asyncio(self) -> None:
        """An async agent on asyncio: all jobs on one loop, which keeps running while the run is watched."""
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            main = loop.create_task(self._all_in_asyncio(TaskBirths(loop, _lane)))
            while not main.done():
                try:
                    loop.run_until_complete(main)
                except (KeyboardInterrupt, SystemExit):
                    traceback.print_exc()  # of a task beside the jobs; who waits for it sees it as well

    async def _all_in_asyncio(self, births: TaskBirths) -> NoReturn:
        await self._acall(self._adapter.start)
        at_once = asyncio.Semaphore(self._order.at_once)
        before = set(asyncio.all_tasks())

        async def lane(job: JobOrder) -> None:
            async with at_once:
                await self._one_async(job)

        tasks = {asyncio.create_task(lane(job)) for job in self._order.jobs}
        await in_spite_of_cancels(lambda: asyncio.wait(tasks))
        await self._acall(self._adapter.stop)
        self._after_jobs()
        until = clock.now() + self._order.watch
        await in_spite_of_cancels(lambda: asyncio.sleep(until - clock.now()))
        own = self._order.own_lane
        pending = [task for task in asyncio.all_tasks() if not task.done()]
        lane_of, before = (lambda task: births.lane(task) or own), before | tasks
        self._leave(leftovers.tasks_left(before, pending, lane_of, births.place))
        self._leave(self._before.left(own))
        self._over()

    def _run_in_trio(self) -> None:
        """An async agent on trio, in the same way."""
        import trio

        at_once = trio.CapacityLimiter(self._order.at_once)

        async def lane(job: JobOrder) -> None:
            async with at_once:
                await self._one_async(job)

        async def everything() -> None:
            await self._acall(self._adapter.start)
            before = trio_tasks()
            async with trio.open_nursery() as nursery:
                for job in self._order.jobs:
                    nursery.start_soon(lane, job)
            await self._acall(self._adapter.stop)
            self._after_jobs()
            await trio.sleep(self._order.watch)
            own = self._order.own_lane
            found = leftovers.tasks_left(before, trio_tasks(), lambda task: task.context.get(_lane) or own)
            self._leave(found)
            self._leave(self._before.left(own))
            self._over()

        trio.run(everything)

    # -- facts ---------------------------------------------------------------------------------------

    def _record(self, kind: type[Event], lane: str, /, **fields: Any) -> None:
        self._journal.record(kind, witness=Witness.RUNNER, lane=lane, **fields)

    def _begin(self, order: JobOrder) -> Job | None:
        _lane.set(order.lane)
        try:
            job = make_job(self._order, order, self._journal)
        except Exception as error:  # ours, not the agent's
            self._record(WitnessFailed, order.lane, error=f"{type(error).__qualname__}: {error}")
            self._end(order.lane, outcome.of_exception(error))
            return None
        self._start(order)
        return job

    def _start(self, job: JobOrder) -> None:
        self._record(RunStarted, job.lane, **started(self._order, job, self._adapter))

    def _end(self, lane: str, fields: dict[str, Any]) -> None:
        with self._lock:
            if lane not in self._open:
                return
            self._open.discard(lane)
            self._record(RunEnded, lane, **fields)
        system.flush()
        self._notes.send("ended", lane)

    def _broke(self, error: BaseException) -> None:
        traceback.print_exception(error)
        fields = outcome.of_exception(error)
        for lane in list(self._open):
            self._end(lane, fields)

    def _after_jobs(self) -> None:
        if self._order.memory:
            grown = max(0, system.peak_bytes() - self._resident)
            self._record(MemoryMeasured, self._order.own_lane, grown=grown, sent=0)
        gc.collect()  # what only a reference cycle holds is closed while the run is watched

    def _leave(self, found: Iterable[leftovers.Found]) -> None:
        for lane, left in found:
            self._record(LeftBehind, lane, **left._asdict())

    def _over(self) -> NoReturn:
        """The supervisor ends this process once it has looked at what is below it."""
        system.flush()
        if self._notes.send("watched"):
            clock.sleep(2 * limits.PROCESS_GRACE_SECONDS)
        os._exit(0)

    def _current_lane(self) -> str:
        return _lane.get() or self._order.own_lane

    # -- services of the adapter ---------------------------------------------------------------------

    def _call(self, function: Callable[[], Any] | None) -> None:
        result = function() if function is not None else None
        if inspect.isawaitable(result):
            finish(result, self._adapter.backend)

    async def _acall(self, function: Callable[[], Any] | None) -> None:
        result = function() if function is not None else None
        if inspect.isawaitable(result):
            await result


def prepare(order: RunOrder, supervisor: int) -> None:
    """Make this process one that can harm nobody but itself: its own session, limits, environment."""
    os.setsid()
    system.die_with_parent()
    if os.getppid() != supervisor:
        os._exit(1)  # it died before we could ask to go with it
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    system.limit_memory(limits.RUN_MEMORY_BYTES)
    leftovers.own_temporary_folder(order)
    os.environ.update(order.env)
    os.environ[tree.TOKEN] = tree.token(order.id, supervisor)
