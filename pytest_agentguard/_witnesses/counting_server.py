"""Our independent server: counts what has arrived, answers as its routes say, and records both."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._core.events import HttpReceived
from pytest_agentguard._core.ledger import Recorder
from pytest_agentguard._core.scenario import FetchCall, Route
from pytest_agentguard._witnesses.barrier import Barrier
from pytest_agentguard._witnesses.counted import Counted, Effects
from pytest_agentguard._witnesses.counting_desk import CountingDesk
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.http_answers import route_of
from pytest_agentguard._witnesses.listener import Listener
from pytest_agentguard._witnesses.origin import Origin
from pytest_agentguard._witnesses.served import Served
from pytest_agentguard._witnesses.tally import Tally

if TYPE_CHECKING:
    from pytest_agentguard._witnesses.endpoint import Endpoint


_CLOSED = "a counting server that has been closed: it ends with its test"


class CountingServer:
    """A server of one test or one run, on a port of its own, with further origins once they are asked for.

    It records into ``recorder``, in ``lane``. ``hold_limit`` (s) replaces the limit of every hold.
    ``ceiling`` is how many requests it answers as its routes say. Making it raises where it cannot listen.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        engine: Engine,
        lane: str = "",
        hold_limit: float | None = None,
        seed: str = "0",
        ceiling: int = limits.COUNTED_REQUESTS,
    ) -> None:
        self.barrier = Barrier(recorder)
        self._engine = engine
        self._lane = lane
        self._hold_limit = hold_limit
        self._tally = Tally(recorder, lane=lane, seed=seed, ceiling=ceiling)
        self._effects = Effects(engine, self._tally)
        self._opening = threading.Lock()
        self._origins: dict[str, Origin] = {}
        self._gate: Listener | None = None
        self._remove_folder: Callable[[], object] = _no_folder
        self._is_closed = False
        self._first = self._origin("first")

    def __enter__(self) -> CountingServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<CountingServer {self.root_url} received={self.received}>"

    # -- where it is ----------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port of its first origin, on 127.0.0.1 and, where there is IPv6, on ::1."""
        return self._first.port

    @property
    def root_url(self) -> str:
        """The address of its first origin without any path."""
        return self._first.root_url

    @property
    def other_name(self) -> HostName:
        """The first origin under the host name ``localhost``."""
        return HostName(self._first, "localhost")

    @property
    def other_origin(self) -> Origin:
        """Another port, opened when it is first asked for; it has routes and counts of its own."""
        return self._origin("other")

    @property
    def tls_origin(self) -> Origin:
        """A port that speaks TLS; clients trust ``ca_file``. Raises ``UsageError`` without trustme."""
        return self._origin("tls", self._encryption)

    def resolve(self, path: str) -> str:
        """The URL of a path; in any text, ``{first} {other} {name} {port} {other_port}`` are filled in."""
        return self.root_url + path if path.startswith("/") else self._filled(path)

    def resolve_call(self, call: FetchCall) -> FetchCall:
        """The call with the addresses in its input filled in."""
        return replace(call, input=self._filled(call.input))

    # -- what it answers ------------------------------------------------------------------------------

    def route(
        self,
        path: str,
        *,
        status: int = 200,
        redirect: str = "",
        drop: bool = False,
        slow: float = 0.0,
        hold: bool = False,
        limit: float = 0.0,
        oversize: int = 0,
        endless: bool = False,
        partial: int = 0,
        body: Any = "ok {nonce}",
        retry_after: str | float | None = None,
        effect: bool = False,
        allowed: bool = True,
        times: int = 0,
        then: Route | None = None,
    ) -> Served:
        """Say what the requests for ``path`` get; one that ends in ``*`` stands for all that begin so.

        A ``status``; a ``redirect`` to a path or URL; ``drop``: read, then closed without an answer;
        ``slow``: so many seconds of silence first; ``hold``: until released, or ``limit`` seconds at most;
        ``oversize``: a body of so many bytes; ``endless``: a body that does not end; ``partial``: so many
        bytes of a longer body, then the end, or with ``hold`` that hold. ``effect`` counts an effect when the
        answer is due. ``times`` requests get this, those that follow what ``then`` says, or a healthy answer.
        ``allowed=False`` is what nobody may ask for.
        """
        route = route_of(
            path, status=status, redirect=redirect, drop=drop, slow=slow, hold=hold, limit=limit,
            oversize=oversize, endless=endless, partial=partial, body=body,
            retry_after="" if retry_after is None else f"{retry_after}",
            effect=effect, allowed=allowed, times=times, then=then,
        )  # fmt: skip
        return self._first.add(route)

    def add(self, route: Route) -> Served:
        """Serve a route on every origin of this server."""
        return self._first.add(route, everywhere=True)

    def forbid(self) -> None:
        """Nobody may connect to the first origin from now on."""
        self._first.forbid()

    def canary(self, name: str, value: str) -> None:
        """Look for ``value`` in the URL, the headers and the body of each request from now on.

        It is found as it is, percent-encoded, escaped as in JSON, and in ``Authorization: Basic``.
        """
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"a canary has a name and a value that are strings, not {name!r} and {value!r}")
        if not value:
            raise UsageError(f"canary {name!r} has no value, so that it would be found everywhere")
        self._tally.canaries = {**self._tally.canaries, name: value}

    def release(self, by: str = "run-ended", lane: str | None = None) -> None:
        """Let go of everything that is held now; effects have happened on return."""
        if lane in (None, self._lane):
            self._let_go(by, lambda counted: True)

    # -- what became of it ----------------------------------------------------------------------------

    @property
    def requests(self) -> tuple[HttpReceived, ...]:
        """The requests that have arrived at any of its origins, in order."""
        return tuple(self._tally.requests)

    @property
    def received(self) -> int:
        """How many requests have arrived at any of its origins."""
        return len(self._tally.requests)

    def problems(self) -> list[str]:
        """One line per request that nobody may make or that met no route, and per failure of the server."""
        return list(self._tally.problems)

    def settle(self) -> None:
        """Return once everything that has reached us by now is recorded."""
        self._engine.settle()

    def barrier_url(self, lane: str = "") -> str:
        """Where a stop of ``lane`` is put on record, once everything that was sent before has been read."""
        if self._is_closed:
            raise UsageError(_CLOSED)
        with self._opening:
            if self._gate is None:  # apart, so that who asks is no client
                desk = CountingDesk(self._tally, self._effects, origin="barrier", hold_limit=None)
                self._gate = Listener(self._engine, self.barrier.before(desk))
                desk.listens(self._gate.port)
        return self.barrier.url(f"http://127.0.0.1:{self._gate.port}", lane)

    def barrier_with(self, other: Endpoint | CountingServer) -> None:
        """Read both servers before a stop is put on record by either."""
        self.barrier.join(other.barrier)

    def close(self) -> None:
        """Let go, stop listening and end what is under way; in a forked child, or again, it does nothing."""
        if self._is_closed:
            return
        self._is_closed = self._tally.is_closed = True
        self._let_go("run-ended", lambda counted: True)
        for origin in self._origins.values():
            origin.close()
        if self._gate is not None:
            self._gate.close()
        self._effects.release("run-ended", lambda counted: True)  # clients that were closed just now
        self._remove_folder()

    # -- inside ---------------------------------------------------------------------------------------

    def _encryption(self) -> dict[str, Any]:
        from pytest_agentguard._witnesses.tls import authority

        signer = authority()
        folder = tempfile.mkdtemp(prefix="agentguard-")
        self._remove_folder = weakref.finalize(self, _remove, folder, os.getpid())
        ca_file = f"{folder}/ca.pem"
        with open(ca_file, "wb") as file:
            file.write(signer.pem)
        return {"scheme": "https", "encrypt": signer.encrypt, "ca_file": ca_file}

    def _origin(self, name: str, options: Callable[[], dict[str, Any]] = dict) -> Origin:
        if self._is_closed:
            raise UsageError(_CLOSED)
        with self._opening:
            if name not in self._origins:
                self._origins[name] = Origin(
                    name,
                    self._tally,
                    self._effects,
                    self.barrier,
                    engine=self._engine,
                    resolve=self._filled,
                    release=self._release_served,
                    hold_limit=self._hold_limit,
                    **options(),
                )
        return self._origins[name]

    def _release_served(self, served: Served) -> None:
        self._let_go("test", lambda counted: counted.served is served)

    def _let_go(self, by: str, chosen: Callable[[Counted], bool]) -> None:
        self.barrier.drain()  # a client that has left by now is not answered
        for origin in list(self._origins.values()):
            origin.release(by, lambda exchange: isinstance(exchange, Counted) and chosen(exchange))
        self._effects.release(by, chosen)

    def _filled(self, text: str) -> str:
        if "{" not in text:
            return text
        if "{other" in text:
            text = text.replace("{other}", self.other_origin.root_url)
            text = text.replace("{other_port}", f"{self.other_origin.port}")
        text = text.replace("{first}", self.root_url).replace("{name}", self.other_name.root_url)
        return text.replace("{port}", f"{self.port}")


def _remove(folder: str, owner: int) -> None:
    """Remove the folder, but not in a forked child: it is the parent's."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _no_folder() -> None:
    """There is none before there is a TLS origin."""


class HostName:
    """An origin under another host name; its requests are counted apart, its routes are the origin's."""

    def __init__(self, origin: Origin, host: str) -> None:
        self._origin = origin
        self._host = host

    def __repr__(self) -> str:
        return f"<HostName {self.root_url} received={self.received}>"

    @property
    def root_url(self) -> str:
        """Its address without any path."""
        return f"http://{self._host}:{self._origin.port}"

    def route(self, path: str, **options: Any) -> Served:
        """Say what the requests for ``path`` get; the options are those of ``CountingServer.route``."""
        served = self._origin.route(path, **options)
        served.url = self.root_url + path
        return served

    @property
    def requests(self) -> tuple[HttpReceived, ...]:
        """The requests that arrived under this name, in order."""
        return tuple(request for request in self._origin.requests if request.origin == "name")

    @property
    def received(self) -> int:
        """How many requests arrived under this name."""
        return len(self.requests)
