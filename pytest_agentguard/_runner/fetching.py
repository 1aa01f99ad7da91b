"""Uses a fetch tool as its script says, one use after another, and records how each of them ended."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_agentguard._core.contracts import Adapter, FetchJob, RunEnd
from pytest_agentguard._core.events import FetchEnded, FetchStarted, Witness
from pytest_agentguard._core.scenario import FetchCall
from pytest_agentguard._runner import outcome
from pytest_agentguard._runner.idle import Deliver, in_asyncio, in_trio
from pytest_agentguard._runner.orders import FetchOrder, JobOrder
from pytest_agentguard._runner.stopping import Canceller, Stop
from pytest_agentguard._runner.tasks import finish
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.journal_file import JournalFile

_RESULT = 4000  # characters of a result


@dataclass(slots=True)
class Fetching:
    """One fetch tool and what it is asked to do; the run of the surface ``fetch``."""

    adapter: Adapter
    order: JobOrder
    workdir: str
    journal: JournalFile
    stop: Stop
    canceller: Canceller | None = None
    job: FetchJob = field(init=False)  # what the tool is made for
    _cancelled: bool = field(default=False, init=False)
    _opened: float = field(default=0.0, init=False)
    _past_deadline: bool = field(default=False, init=False)

    @property
    def script(self) -> FetchOrder:
        """What is asked of the tool."""
        assert self.order.fetch is not None
        return self.order.fetch

    def __post_init__(self) -> None:
        script = self.script
        self.job = FetchJob(
            allowed=dict(script.allowed),
            limits=self.order.limits,
            token=script.token,
            method=script.method,
            body=script.body,
            workdir=self.workdir,
        )

    def open(self) -> Callable[[str], Any]:
        """Have the tool made. Its deadline counts from here."""
        assert self.adapter.fetch is not None
        self._opened = clock.now()
        return self.adapter.fetch(self.job)

    # -- on a loop ------------------------------------------------------------------------------------

    async def run_async(self) -> dict[str, Any]:
        """The whole script on the running loop; gives the fields of ``RunEnded``."""
        opened: Any = self.open()
        tool = await opened if inspect.isawaitable(opened) else opened
        side_by_side = _in_trio if self.adapter.backend == "trio" else _in_asyncio
        try:
            for place, use in enumerate(self.script.calls, 1):
                await side_by_side(
                    [self._use_async(tool, *one) for one in _workers(place, use)], self.canceller
                )
                self._look_at_the_clock()
        finally:
            await _closed(tool)
        return self._end()

    def _use_async(
        self, tool: Callable[[str], Any], call: str, use: FetchCall
    ) -> Callable[[], Awaitable[None]]:
        async def one() -> None:
            self._started(call, use)
            try:
                result = tool(use.input)
                fields = _returned(await result if inspect.isawaitable(result) else result)
                self._cancelled = self._cancelled or fields["how"] == "cancelled"
            except BaseException as error:
                self._ended(call, self._failed(error))
                if not isinstance(error, Exception):
                    raise
            else:
                self._ended(call, fields)

        return one

    # -- in threads -----------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """The whole script in this thread, workers in one each; gives the fields of ``RunEnded``."""
        tool = self._finished(self.open())
        try:
            for place, use in enumerate(self.script.calls, 1):
                workers = _workers(place, use)
                if len(workers) == 1:
                    self._use(tool, *workers[0])
                else:
                    _in_threads([lambda one=one: self._use(tool, *one) for one in workers])  # type: ignore[misc]
                self._look_at_the_clock()
        finally:
            close = _closing(tool)
            if close is not None:
                self._finished(close())
        return self._end()

    def _finished(self, value: Any) -> Any:
        """The value; an awaitable, of an async tool in a synchronous adapter, on a loop of its own."""
        return finish(value, self.adapter.backend) if inspect.isawaitable(value) else value

    def _use(self, tool: Callable[[str], Any], call: str, use: FetchCall) -> None:
        self._started(call, use)
        try:
            fields = _returned(self._finished(tool(use.input)))
            self._cancelled = self._cancelled or fields["how"] == "cancelled"
        except BaseException as error:  # KeyboardInterrupt is how it is stopped
            fields = self._failed(error)
        self._ended(call, fields)

    # -- facts ----------------------------------------------------------------------------------------

    def _started(self, call: str, use: FetchCall) -> None:
        worker = call.partition(".")[2]
        self._record(FetchStarted, call=call, input=use.input, allowed=use.allowed, worker=worker)

    def _ended(self, call: str, fields: dict[str, Any]) -> None:
        self._record(FetchEnded, call=call, **fields)

    def _failed(self, error: BaseException) -> dict[str, Any]:
        stopped = self.canceller is not None and self.canceller.fired
        fields = outcome.of_exception(error, stopped=stopped)
        self._cancelled = self._cancelled or fields["how"] == "cancelled"
        return fields

    def _look_at_the_clock(self) -> None:
        """A deadline that has passed is a stop: what is asked from here on comes after it."""
        deadline = self.order.limits.deadline
        if deadline is not None and not self._past_deadline and clock.now() - self._opened >= deadline:
            self._past_deadline = True
            self.stop.record("deadline")

    def _end(self) -> dict[str, Any]:
        return {"how": "cancelled"} if self._cancelled else {"how": "returned", "answer": ""}

    def _record(self, kind: Any, /, **fields: Any) -> None:
        self.journal.record(kind, witness=Witness.RUNNER, lane=self.order.lane, **fields)


def _workers(place: int, use: FetchCall) -> list[tuple[str, FetchCall]]:
    if use.workers == 1:
        return [(f"f{place}", use)]
    return [(f"f{place}.{worker}", use) for worker in range(1, use.workers + 1)]


def _returned(value: Any) -> dict[str, Any]:
    if isinstance(value, RunEnd):
        how = {"completed": "returned", "cancelled": "cancelled"}.get(value.how, "raised")
        return {**_returned(value.answer or ""), "how": how, "error": value.error or ""}
    text = value if isinstance(value, str) else repr(value)
    size = len(text.encode("utf-8", "replace"))
    return {"how": "returned", "result": text[:_RESULT], "result_bytes": size}


async def _in_asyncio(uses: list[Callable[[], Awaitable[None]]], canceller: Canceller | None) -> None:
    """All uses side by side, each in a task; a cancel reaches the tasks and not whoever waits for them."""
    tasks = {asyncio.ensure_future(use()) for use in uses}

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    def is_over() -> bool:
        return all(task.done() for task in tasks)

    if canceller is not None:
        canceller.aim(cancel, *(_unless(is_over, way) for way in in_asyncio()))
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # it is in the ledger; nobody else will ask for it


def _unless(is_over: Callable[[], bool], deliver: Deliver) -> Deliver:
    """Deliver only what still finds uses to cancel: a plain tool on a loop is over before it can be told."""
    return lambda now: deliver(lambda: None if is_over() else now())


async def _in_trio(uses: list[Callable[[], Awaitable[None]]], canceller: Canceller | None) -> None:
    """The same on trio, where what is asked for soon may come before a task has begun."""
    import trio

    begun = ended = 0

    async def counted(use: Callable[[], Awaitable[None]]) -> None:
        nonlocal begun, ended
        begun += 1
        try:
            await use()
        finally:
            ended += 1

    def is_over() -> bool:
        return ended == len(uses)

    with trio.CancelScope() as scope:
        if canceller is not None:
            deliver, soon = in_trio()

            def once_begun(now: Callable[[], None]) -> None:
                soon(lambda: now() if begun == len(uses) else once_begun(now))

            canceller.aim(scope.cancel, _unless(is_over, deliver), _unless(is_over, once_begun))
        async with trio.open_nursery() as nursery:
            for use in uses:
                nursery.start_soon(counted, use)


def _in_threads(uses: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=use, daemon=True) for use in uses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _closed(tool: Any) -> None:
    close = _closing(tool)
    if close is not None:
        result = close()
        if inspect.isawaitable(result):
            await result


def _closing(tool: Any) -> Callable[[], Any] | None:
    return getattr(tool, "aclose", None) or getattr(tool, "close", None)
