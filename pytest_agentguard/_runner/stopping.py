"""Cancels a run at a point that a witness has seen, with the stop on record between before and after."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import traceback
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any

from pytest_agentguard._core.events import StopRequested, Witness
from pytest_agentguard._core.scenario import CANCEL_AT, Cancel
from pytest_agentguard._runner import outcome
from pytest_agentguard._runner.following import Following
from pytest_agentguard._runner.idle import Deliver, in_asyncio, in_trio
from pytest_agentguard._runner.orders import RunOrder
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.journal_file import JournalFile

_LOOK_SECONDS = 0.002  # between two looks at a journal to which nothing was added
_BARRIER_SECONDS = 5.0
_OBEY_SECONDS = 1.0  # how long a cancel of the agent's, or our handler of SIGINT, may take
_AGAIN_SECONDS = 0.05  # between two signals of the same interrupt
_OWN_HANDLER_SECONDS = 0.1  # how long a handler of the agent's may take to come to know of it

# taken now, since an agent may replace what is in a module
_Socket, _Thread, _wait = socket.socket, threading.Thread, threading.Event.wait
_kill, _getsignal = signal.pthread_kill, signal.getsignal

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
        self._ending = False
        self._settled = threading.Event()  # no stop is about to be put on record by another thread
        self._settled.set()
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

    @property
    def is_at_a_wait(self) -> bool:
        """Whether the run waits for a server when it is cancelled, and sends nothing meanwhile."""
        return self._cancel.after is None and self._cancel.at in ("request", "body")

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
        """The run is over; a stop that it was told of before that is put on record first."""
        self._ending = True
        _wait(self._settled, 2 * _OBEY_SECONDS)
        self._over.set()

    # -- the moment -----------------------------------------------------------------------------------

    def _watch(self) -> None:
        cancel = self._cancel
        if cancel.after is not None:
            if not _wait(self._over, cancel.after):
                self._fire()
            return
        journal = Following(self._journal.path)
        if self._saw(journal, self._kinds, cancel.nth):
            self._fire()
            if cancel.again and self._saw(journal, CANCEL_AT["clean-up"], 1):
                self._fire()

    def _saw(self, journal: Following, kinds: tuple[str, ...], nth: int) -> bool:
        """Read on until the ``nth`` fact of these kinds; False where the run is over first."""
        while not self._over.is_set():
            fact = journal.next()
            if fact is None:
                _wait(self._over, _LOOK_SECONDS)
                continue
            kind, fields = fact
            nth -= kind in kinds and fields.get("lane", "") == self._lane
            if nth == 0:
                return True
        return False

    def _fire(self) -> None:
        assert self._deliver is not None
        at, again = ("clean-up", True) if self._fired else (self._cancel.at, False)
        self._settled.clear()
        if not self._ending:
            self._fired += 1
            self._deliver(lambda: self._now(at, again))
        self._settled.set()

    def _now(self, at: str, again: bool) -> None:
        if self._over.is_set():
            return
        try:
            self._stop.record("cancel", at, again=again)
        finally:
            self._act()
            self._settled.set()


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

    It goes on meanwhile, so the stop is on record only once it has been told: also by a cancel that raises,
    or that takes longer than it may.
    """

    def deliver(now: Callable[[], None]) -> None:
        told = threading.Event()

        def record() -> None:
            _wait(told, _OBEY_SECONDS)
            now()

        recording = _Thread(target=record, name="agentguard-stop", daemon=True)
        recording.start()
        try:
            act()
        except BaseException:  # SystemExit in a thread ends nothing
            traceback.print_exc()
        told.set()
        recording.join()

    return _nothing, deliver


def by_interrupt(*, is_waiting: bool = False) -> Way:
    """For a synchronous agent in the main thread: SIGINT, whose handler runs where the agent runs.

    Where the agent ignores SIGINT or has a handler of its own, the stop is put on record from here: before it
    is told, where it ``is_waiting`` for a server and sends nothing meanwhile, or else once it has been told.
    """
    return _nothing, _Interrupts(is_waiting).deliver


class _Interrupts:
    """SIGINT for the main thread, sent until its handler has run."""

    def __init__(self, is_waiting: bool) -> None:
        self._is_waiting = is_waiting
        self._pending: list[Callable[[], None]] = []
        self._due: list[bool] = []  # interrupts to be raised; lists, since a handler must not wait for a lock
        self._repeated: list[bool] = []
        self._handled = threading.Event()
        self._handler = self._interrupted  # one object, to be compared with what is installed
        signal.signal(signal.SIGINT, self._handler)

    def _interrupted(self, number: int, frame: object) -> None:
        if self._due:
            self._due.pop()
        elif self._repeated:
            return  # it was sent once more than was needed
        self._record()
        raise KeyboardInterrupt

    def _record(self) -> None:
        try:
            now = self._pending.pop()
        except IndexError:
            return  # it is on record, by the other thread
        self._handled.set()
        now()

    def deliver(self, now: Callable[[], None]) -> None:
        """Interrupt the main thread; ``now`` puts the stop on record."""
        self._handled.clear()
        self._pending.append(now)
        is_ours = _getsignal(signal.SIGINT) is self._handler
        if is_ours:
            self._due.append(True)
        elif self._is_waiting:
            self._record()
        self._send(is_ours)
        self._record()

    def _send(self, is_ours: bool) -> None:
        main = threading.main_thread().ident
        assert main is not None
        _kill(main, signal.SIGINT)
        until = clock.now() + (_OBEY_SECONDS if is_ours else _OWN_HANDLER_SECONDS)
        while not _wait(self._handled, _AGAIN_SECONDS) and clock.now() < until:
            if is_ours:  # one that comes just before a system call does not end it
                self._repeated.append(True)
                _kill(main, signal.SIGINT)


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
        with _Socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(_BARRIER_SECONDS)
            connection.connect((where.hostname, where.port))
            connection.sendall(head.encode("ascii"))
            answer = b""
            while b"\r\n" not in answer and clock.now() < until:
                data = connection.recv(4096)
                if not data:
                    break
                answer += data
    except Exception:  # whatever the agent has made of our process, the run is told to stop
        return False
    return answer.startswith(b"HTTP/1.1 204")
