"""What became of the requests for one route of the counting server."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pytest_agentguard._core.events import HttpReceived
from pytest_agentguard._core.scenario import Route
from pytest_agentguard._witnesses.signals import Signal


class Served:
    """One route, and what became of its requests.

    ``arrived`` is set when the first of them has been read, ``closed`` when a client closed before its answer
    was over; await them from asyncio or trio, or ``arrived.wait(5)`` in a thread.
    """

    def __init__(self, route: Route, url: str, origin: str, release: Callable[[Served], None]) -> None:
        self.route = route
        self.url = url
        self.origin = origin  # the only one that has this route; empty: all of the server's
        self.arrived = Signal(f"{route.path} arrived")
        self.closed = Signal(f"{route.path} closed")
        self.let_go = False
        self._release = release
        self._requests: list[HttpReceived] = []
        self._changed = threading.Condition()
        self._effects = 0

    def __repr__(self) -> str:
        return f"<Served {self.url} received={self.received} effects={self.effects}>"

    @property
    def received(self) -> int:
        """How many requests have been read."""
        return len(self._requests)

    @property
    def requests(self) -> tuple[HttpReceived, ...]:
        """The requests, in order of arrival."""
        return tuple(self._requests)

    @property
    def effects(self) -> int:
        """How many effects have happened: one for each answer that was due, with a client or without."""
        return self._effects

    def wait(self, n: int, timeout: float) -> bool:
        """Block until ``n`` requests have been read, for ``timeout`` seconds at most; whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: self.received >= n, timeout)

    def wait_effects(self, n: int, timeout: float) -> bool:
        """Block until ``n`` effects have happened, for ``timeout`` seconds at most; whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: self.effects >= n, timeout)

    def release(self) -> None:
        """Let go of what this route holds, now and from now on; its effects have happened on return."""
        self.let_go = True
        self._release(self)

    # -- on the engine's thread -----------------------------------------------------------------------

    def add(self, request: HttpReceived) -> int:
        """One more request; which one it is."""
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
        if not self.arrived.is_set():
            self.arrived.set()
        return self.received

    def affect(self) -> int:
        """One more effect; how many there are."""
        with self._changed:
            self._effects += 1
            self._changed.notify_all()
        return self._effects
