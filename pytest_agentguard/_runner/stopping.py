"""Cancels a run at a point that a witness has seen, with the stop on record between before and after."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import IO, Any

from pytest_agentguard._core.events import StopRequested, Witness
from pytest_agentguard._core.scenario import CANCEL_AT, Cancel
from pytest_agentguard._runner import outcome
from pytest_agentguard._runner.idle import Deliver, in_asyncio, in_trio
from pytest_agentguard._runner.orders import RunOrder
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.journal_file import JournalFile

_LOOK_SECONDS = 0.002  # between two looks at a journal to which nothing was added
_BARRIER_SECONDS = 5.0
_connect = socket.create_connection  # taken now, since an agent may replace what is in a module

Way = tuple[Callable[[], object], Deliver]
"""What cancels, and how it is delivered."""


class Stop:
    """Puts a stop on record: once everything that was sent before it has been read by the servers."""

    def __init__(self, journal: JournalFile, barrier: str, lane: str) -> None:
        self._journal = journal
        self._barrier = barrier
        self._lane = lane

    def record(self, by: str, at: str = "", *, again: bool = False) -> None:
        """Record ``StopRequested``; the agent must not run meanwhile, or what it sends may come before."""
        fields = {"by": by, "at": at, "again": again}
        if not (self._barrier and _asked(self._barrier, fields)):
            self._journal.record(StopRequested, witness=Witness.RUNNER, lane=self._lane, **fields)


class Canceller:
    """Cancels one run. ``aim`` says how, once there is something to cancel; ``end`` when it is too late."""

    def __init__(
        self, cancel: Cancel, kinds: tuple[str, ...], stop: Stop, journal: JournalFile, lane: str
    ) -> None:
        self._cancel = cancel
        self._kinds = kinds
        self._stop = stop
        self._journal = journal
        self._lane = lane
        self._over = threading.Event()
        self._deliver: Deliver | None = None
        self._act: Callable[[], object] = _nothing
        self._fired = 0
        self._waiting = False
        self.thread = threading.Thread(target=self._watch, name="agentguard-cancel", daemon=True)

    @classmethod
    def of(cls, order: RunOrder, stop: Stop, journal: JournalFile) -> Canceller | None:
        """The one that an order asks for: it cancels the first of its jobs."""
        if order.cancel is None:
            return None
        job = order.jobs[0]
        kinds = CANCEL_AT[order.cancel.at]
        if job.fetch is not None:
            kinds = tuple(kind for kind in kinds if kind != "RunStarted")  # its first use comes later
        return cls(order.cancel, kinds, stop, journal, job.lane)

    @property
    def fired(self) -> bool:
        """Whether the run was told to stop."""
        return self._fired > 0

    def aim(self, act: Callable[[], object], deliver: Deliver, at_once: Deliver | None = None) -> None:
        """``act`` cancels, ``deliver`` runs it where the agent runs; the wait for the moment begins.

        Again, when something else is to be cancelled from now on. On a loop, what is delivered ``at_once``
        comes after the first step of the agent, which has sent nothing yet.
        """
        self._act, self._deliver = act, deliver
        if self._waiting:
            return
        self._waiting = True
        if at_once is not None and self._cancel.at == "before-send" and self._cancel.after is None:
            self._deliver = at_once
            self._fire()
        else:
            self.thread.start()

    def end(self) -> None:
        """The run is over."""
        self._over.set()

    # -- the moment -----------------------------------------------------------------------------------

    def _watch(self) -> None:
        cancel = self._cancel
        if cancel.after is not None:
            if not self._over.wait(cancel.after):
                self._fire()
            return
        with open(self._journal.path, "rb") as facts:
            if self._saw(facts, self._kinds, cancel.nth):
                self._fire()
                if cancel.again and self._saw(facts, CANCEL_AT["clean-up"], 1):
                    self._fire()

    def _saw(self, facts: IO[bytes], kinds: tuple[str, ...], nth: int) -> bool:
        """Read on until the ``nth`` fact of these kinds; False where the run is over first."""
        rest = b""
        while not self._over.is_set():
            rest += facts.readline()
            if not rest.endswith(b"\n"):
                self._over.wait(_LOOK_SECONDS)
                continue
            nth -= self._is(rest, kinds)
            rest = b""
            if nth == 0:
                return True
        return False

    def _is(self, line: bytes, kinds: tuple[str, ...]) -> bool:
        try:
            _, kind, fields = json.loads(line)
            return kind in kinds and fields.get("lane", "") == self._lane
        except (ValueError, TypeError, AttributeError):
            return False

    def _fire(self) -> None:
        assert self._deliver is not None
        at, again = ("clean-up", True) if self._fired else (self._cancel.at, False)
        self._fired += 1
        self._deliver(lambda: self._now(at, again))

    def _now(self, at: str, again: bool) -> None:
        if not self._over.is_set():
            self._stop.record("cancel", at, again=again)
            self._act()


async def cancellable(
    run: Callable[[], Awaitable[Any]], canceller: Canceller, backend: str
) -> dict[str, Any]:
    """Await ``run()`` so that a cancel ends it and not whoever waits for it; the fields of ``RunEnded``."""
    if backend == "trio":
        return await _cancellable_in_trio(run, canceller)
    task = asyncio.ensure_future(run())
    canceller.aim(task.cancel, *in_asyncio())
    await asyncio.wait({task})
    try:
        return outcome.of_value(task.result())
    except BaseException as error:
        return outcome.of_exception(error)


async def _cancellable_in_trio(run: Callable[[], Awaitable[Any]], canceller: Canceller) -> dict[str, Any]:
    import trio

    fields: dict[str, Any] = {"how": "cancelled"}
    with trio.CancelScope() as scope:
        canceller.aim(scope.cancel, *in_trio())
        try:
            fields = outcome.of_value(await run())
        except BaseException as error:
            fields = outcome.of_exception(error)
            if isinstance(error, trio.Cancelled):
                raise
    return fields


def by_call(act: Callable[[], object]) -> Way:
    """For a synchronous agent with a ``cancel`` of its own, called from another thread than it runs in.

    It goes on meanwhile, so the stop is on record only once it has been told.
    """

    def deliver(now: Callable[[], None]) -> None:
        act()
        now()

    return _nothing, deliver


def by_interrupt() -> Way:
    """For a synchronous agent in the main thread: SIGINT, whose handler runs where the agent runs."""
    pending: list[Callable[[], None]] = []

    def handler(number: int, frame: object) -> None:
        if pending:
            pending.pop()()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    main = threading.main_thread().ident
    assert main is not None

    def deliver(now: Callable[[], None]) -> None:
        pending.append(now)
        signal.pthread_kill(main, signal.SIGINT)

    return _nothing, deliver


def _nothing() -> None:
    """What delivers it cancels by itself."""


def _asked(barrier: str, fields: dict[str, Any]) -> bool:
    """Whether a server has answered that all is read and the stop on record."""
    where = urllib.parse.urlsplit(barrier)
    query = urllib.parse.urlencode({name: int(v) if isinstance(v, bool) else v for name, v in fields.items()})
    path = f"{where.path}?{where.query}&{query}" if where.query else f"{where.path}?{query}"
    head = f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n"
    until = clock.now() + _BARRIER_SECONDS
    try:
        with _connect((where.hostname, where.port), timeout=_BARRIER_SECONDS) as connection:
            connection.sendall(head.encode("ascii"))
            answer = b""
            while b"\r\n" not in answer and clock.now() < until:
                data = connection.recv(4096)
                if not data:
                    break
                answer += data
    except OSError:
        return False
    return answer.startswith(b"HTTP/1.1 204")
