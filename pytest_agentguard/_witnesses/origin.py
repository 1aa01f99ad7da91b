"""One origin of a counting server: a port on loopback, on IPv4 and IPv6, with routes of its own."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_agentguard._core.errors import AgentguardError
from pytest_agentguard._core.events import HttpReceived
from pytest_agentguard._core.scenario import Route
from pytest_agentguard._witnesses.barrier import Barrier
from pytest_agentguard._witnesses.counted import Effects
from pytest_agentguard._witnesses.counting_desk import Admit, CountingDesk
from pytest_agentguard._witnesses.delivery import Exchange
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.http_answers import checked, route_of
from pytest_agentguard._witnesses.listener import Listener
from pytest_agentguard._witnesses.served import Served
from pytest_agentguard._witnesses.tally import Tally

_TRIES = 8  # ports that are free on IPv4 and taken on IPv6 are rare


class Origin:
    """One port, with routes and counts of its own. It is open when it is made, or making it raises.

    ``resolve`` fills addresses into a text, ``release`` lets go of what one route holds. ``encrypt`` makes
    TLS of an accepted connection; ``ca_file`` is what its clients trust.
    """

    def __init__(
        self,
        name: str,
        tally: Tally,
        effects: Effects,
        barrier: Barrier,
        *,
        engine: Engine,
        resolve: Callable[[str], str],
        release: Callable[[Served], None],
        hold_limit: float | None,
        scheme: str = "http",
        encrypt: Admit | None = None,
        ca_file: str = "",
    ) -> None:
        self.ca_file = ca_file
        self._name = name
        self._tally = tally
        self._scheme = scheme
        self._resolve = resolve
        self._release = release
        self._desks: list[CountingDesk] = []
        self._listeners: list[Listener] = []
        make = partial(
            CountingDesk,
            tally,
            effects,
            origin=name,
            scheme=scheme,
            hold_limit=hold_limit,
            encrypt=encrypt,
        )
        self._open(engine, barrier, make)

    def __repr__(self) -> str:
        return f"<Origin {self.root_url} received={self.received}>"

    # -- where it is ----------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Its port."""
        return self._listeners[0].port

    @property
    def root_url(self) -> str:
        """Its address without any path."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    # -- what it answers ------------------------------------------------------------------------------

    def route(self, path: str, **options: Any) -> Served:
        """Say what the requests for ``path`` get; the options are those of ``CountingServer.route``."""
        return self.add(route_of(path, **options))

    def add(self, route: Route, *, everywhere: bool = False) -> Served:
        """The same from data; ``everywhere``: on every origin of the server."""
        route = resolved(checked(route), self._resolve)
        origin = "" if everywhere else self._name
        served = Served(route, self.root_url + route.path, origin, self._release)
        self._tally.add(served)
        return served

    def forbid(self) -> None:
        """Nobody may connect from now on: each connection and request is recorded as one too many."""
        for desk in self._desks:
            desk.forbidden = True

    # -- what became of it ----------------------------------------------------------------------------

    @property
    def requests(self) -> tuple[HttpReceived, ...]:
        """The requests that arrived here, in order."""
        names = (self._name, "name") if self._name == "first" else (self._name,)
        return tuple(request for request in tuple(self._tally.requests) if request.origin in names)

    @property
    def received(self) -> int:
        """How many requests arrived here."""
        return len(self.requests)

    # -- for the server -------------------------------------------------------------------------------

    def release(self, by: str, chosen: Callable[[Exchange], bool]) -> None:
        """Let go of the holds of every answer that is ``chosen``; it is done on return."""
        for listener in self._listeners:
            if listener.holds:
                listener.release(by, chosen)

    def close(self) -> None:
        """Stop listening and end what is under way."""
        for listener in self._listeners:
            listener.close()

    def _open(self, engine: Engine, barrier: Barrier, make: Callable[..., CountingDesk]) -> None:
        for _ in range(_TRIES):
            first = self._listen(engine, make(address="127.0.0.1"), 0)
            try:
                self._listen(engine, make(address="::1"), first.port, address="::1")
            except AgentguardError as problem:
                if not _is_taken(problem):  # no IPv6 here
                    break
                self.close()
                self._listeners.clear()
                self._desks.clear()
                continue
            break
        if not self._listeners:
            raise AgentguardError("no port is free on both 127.0.0.1 and ::1")
        for listener in self._listeners:
            barrier.add(listener.drain)

    def _listen(self, engine: Engine, desk: CountingDesk, port: int, address: str = "127.0.0.1") -> Listener:
        listener = Listener(engine, desk, address=address, port=port, admit=desk.admit)
        desk.listens(listener.port)
        self._listeners.append(listener)
        self._desks.append(desk)
        return listener


def resolved(route: Route, resolve: Callable[[str], str]) -> Route:
    """The route with every address filled in, and those that follow it."""
    then = None if route.then is None else resolved(route.then, resolve)
    return replace(route, to=resolve(route.to), body=resolve(route.body), then=then)


def _is_taken(problem: AgentguardError) -> bool:
    return isinstance(problem.__cause__, OSError) and problem.__cause__.errno == errno.EADDRINUSE
