"""One thread for all listeners: a selector, a wake-up socket and a heap of deadlines. Nothing polls."""

from __future__ import annotations

import heapq
import math
import os
import selectors
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import AgentguardError, LimitReached
from pytest_agentguard._witnesses import clock

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
_ASKED_BY_ANY_THREAD = (selectors.EpollSelector,) if hasattr(selectors, "EpollSelector") else ()


class Handler(Protocol):
    """What the engine calls when a socket is ready; an exception of it goes to ``failed``."""

    def ready(self, events: int) -> None:
        """The socket can be read, written or both."""

    def failed(self, error: BaseException) -> None:
        """``ready`` or a deadline raised."""


class Timer:
    """One deadline. Cancelling it is cheap; it leaves the heap when its time comes."""

    __slots__ = ("_action", "_handler")

    def __init__(self, action: Callable[[], None], handler: Handler) -> None:
        self._action: Callable[[], None] | None = action
        self._handler: Handler | None = handler

    def cancel(self) -> None:
        """Do not fire."""
        self._action = self._handler = None

    def fire(self) -> None:
        """Run the action, unless cancelled."""
        action, handler = self._action, self._handler
        self.cancel()
        if action is not None and handler is not None:
            _guarded(action, handler)


class Engine:
    """Serves sockets on one daemon thread, which starts with the first of them.

    ``watch``, ``unwatch`` and ``later`` belong to the engine's own thread, all else to any.
    After a fork the child has no part in it: its copies of the sockets are closed, calls do nothing.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.failure = ""  # what its thread ended with, where that was not ``stop``
        self._rounds = 0
        self._is_waiting = False
        self._after_round: list[Callable[[], None]] = []
        self._commands: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._selector = selectors.DefaultSelector()
        self._inside, self._outside = socket.socketpair()
        self._sockets: dict[socket.socket, Handler | None] = {self._inside: None, self._outside: None}
        self.ports: set[int] = set()  # all that were ever listened at
        for end in self._sockets:
            end.setblocking(False)
        self._selector.register(self._inside, READ, None)
        os.register_at_fork(after_in_child=partial(_abandon, weakref.ref(self)))

    # -- from any thread ------------------------------------------------------------------------------

    def call(self, action: Callable[[], None]) -> bool:
        """Run ``action`` on the engine's thread, soon. False where there is no engine to do it (any more)."""
        if os.getpid() != self._pid or not self._started():
            return False
        self._commands.append(action)
        try:
            self._outside.send(b"\0")
        except BlockingIOError:
            pass  # it is being woken already
        except OSError:
            return False
        return True

    def listen(self, sock: socket.socket, handler: Handler) -> bool:
        """Call ``handler`` when ``sock`` can be read. False where there is no engine to do it (any more)."""
        self.ports.add(sock.getsockname()[1])
        if not isinstance(self._selector, _ASKED_BY_ANY_THREAD):
            return self.call(lambda: self.watch(sock, READ, handler))
        if os.getpid() != self._pid or not self._started():
            return False
        try:
            self.watch(sock, READ, handler)  # the kernel wakes the thread when there is something to do
        except (OSError, ValueError):  # stopped just now
            return False
        return not self._stopping

    def run(self, action: Callable[[], None], *, limit: float = limits.ENGINE_SECONDS) -> bool:
        """Run ``action`` on the engine's thread and wait for it; its exception is raised here."""
        if threading.current_thread() is self._thread:
            action()
            return True
        done = threading.Lock()  # an Event is three objects more, and this is done several times in each test
        done.acquire()
        errors: list[BaseException] = []

        def command() -> None:
            try:
                action()
            except BaseException as error:
                errors.append(error)
            finally:
                done.release()

        if not self.call(command):
            return False
        if not done.acquire(timeout=limit):
            raise LimitReached(f"the engine did not answer within limit={limit:g} s")
        if errors:
            raise errors[0]
        return True

    def settle(self, *, limit: float = limits.ENGINE_SECONDS) -> bool:
        """Return once everything that had reached this process when we were called has been looked at.

        False where there is no engine (any more); raises ``AgentguardError`` where it has failed, since what
        has come then was seen by nobody.
        """
        if self.failure:
            raise AgentguardError(f"the engine has failed: {self.failure}")
        if threading.current_thread() is self._thread or self.is_quiet():
            return True
        done = threading.Lock()
        done.acquire()
        if not self.call(lambda: self._after_round.append(done.release)):
            return False
        if not done.acquire(timeout=limit):
            raise LimitReached(f"the engine did not answer within limit={limit:g} s")
        return True

    def is_quiet(self) -> bool:
        """Whether the thread waits and nothing is there that it would wake up for; False says nothing."""
        if not isinstance(self._selector, _ASKED_BY_ANY_THREAD):
            return False
        rounds, was_waiting = self._rounds, self._is_waiting
        try:
            is_quiet = was_waiting and not self._selector.select(0)
        except (OSError, ValueError):  # it is being closed
            return False
        return is_quiet and self._is_waiting and self._rounds == rounds

    def stop(self) -> None:
        """End the thread and close every socket; again or in a forked child it does nothing."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            thread, self._stopping = self._thread, True
        if thread is None:
            self._close_all()
            return
        try:
            self._outside.send(b"\0")
        except OSError:
            pass
        if thread is not threading.current_thread():
            thread.join(limits.ENGINE_SECONDS)

    def _started(self) -> bool:
        if self._thread is not None:
            return not self._stopping
        with self._lock:
            if self._stopping:
                return False
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="agentguard-engine", daemon=True)
                self._thread.start()
        return True

    # -- on the engine's thread -----------------------------------------------------------------------

    def watch(self, sock: socket.socket, events: int, handler: Handler) -> None:
        """Call ``handler`` when ``sock`` is ready for ``events``; again to change them."""
        if sock in self._sockets:
            self._selector.modify(sock, events, handler)
        else:
            self._selector.register(sock, events, handler)
        self._sockets[sock] = handler

    def unwatch(self, sock: socket.socket) -> None:
        """Forget ``sock``; before it is closed, always."""
        if sock in self._sockets:
            del self._sockets[sock]
            self._selector.unregister(sock)

    def later(self, seconds: float, action: Callable[[], None], handler: Handler) -> Timer:
        """Run ``action`` after ``seconds``; what it raises goes to ``handler``."""
        if not math.isfinite(seconds):  # it would never fire, and a NaN would keep others from it
            raise ValueError(f"a deadline in {seconds} s")
        timer = Timer(action, handler)
        heapq.heappush(self._timers, (clock.now() + seconds, next(self._order), timer))
        return timer

    def _serve(self) -> None:
        waiting: list[Callable[[], None]] = []
        try:
            while not self._stopping:
                waiting, self._after_round = self._after_round, []
                self._round(0.0 if waiting else self._until_due())
                while waiting:
                    waiting.pop()()
        except BaseException as error:  # never to be: whatever comes now is seen by nobody
            self._tell_failure(error)
        finally:
            self._stopping = True
            self._is_waiting = False
            self._obey()
            for action in (*waiting, *self._after_round):
                action()
            self._close_all()

    def _tell_failure(self, error: BaseException) -> None:
        """Say to every handler, before anybody can be told that there is no engine."""
        self.failure = f"{type(error).__name__}: {error}"
        for handler in list(self._sockets.values()):
            if handler is not None:
                _guarded(partial(_raise, error), handler)

    def _round(self, patience: float | None) -> None:
        self._is_waiting = True
        ready = self._selector.select(patience)
        self._is_waiting = False
        self._rounds += 1
        for key, events in ready:
            if key.data is None:
                self._obey()
            elif key.fileobj in self._sockets:  # an earlier one of this round may have closed it
                _guarded(key.data.ready, key.data, events)
        self._fire_due()

    def _until_due(self) -> float | None:
        if not self._timers:
            return None
        return min(max(0.0, self._timers[0][0] - clock.now()), limits.SELECT_SECONDS)

    def _fire_due(self) -> None:
        now = clock.now()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2].fire()

    def _obey(self) -> None:
        try:
            self._inside.recv(4096)
        except OSError:
            pass
        while self._commands:
            action = self._commands.popleft()
            try:
                action()
            except Exception:  # a command reports its own errors (see run); the thread lives on
                continue

    def _close_all(self) -> None:
        while self._sockets:
            self._sockets.popitem()[0].close()
        self._selector.close()

    def _leave_to_parent(self) -> None:
        """Close this process's copies. Nothing is unregistered: the selector is the parent's too."""
        self._stopping = True
        self._close_all()


def _abandon(reference: weakref.ref[Engine]) -> None:
    engine = reference()
    if engine is not None:
        engine._leave_to_parent()


def _raise(error: BaseException) -> None:
    raise error


def _guarded(action: Callable[..., None], handler: Handler, *arguments: int) -> None:
    try:
        action(*arguments)
    except BaseException as error:  # a user's predicate may raise anything, pytest.fail() too
        try:
            handler.failed(error)
        except BaseException:  # the recorder itself is broken: nobody is left to be told
            return
