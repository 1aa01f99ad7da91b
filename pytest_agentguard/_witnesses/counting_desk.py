"""Answers the requests of one origin of a counting server: records each, then does what its route says."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from urllib.parse import urljoin, urlsplit

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import CeilingReached, ConnectionAccepted, HttpReceived, RedirectOffered
from pytest_agentguard._core.plan import Note, Plan
from pytest_agentguard._core.scenario import Route
from pytest_agentguard._witnesses.counted import Counted, Effects
from pytest_agentguard._witnesses.delivery import Exchange
from pytest_agentguard._witnesses.exchanges import Silent
from pytest_agentguard._witnesses.http_answers import plan_of, turn_of
from pytest_agentguard._witnesses.http_request import HttpRequest
from pytest_agentguard._witnesses.routes import credentials, shown_target
from pytest_agentguard._witnesses.served import Served
from pytest_agentguard._witnesses.tally import Tally, cut

_PORTS = {"http": 80, "https": 443}
_ROUTES_SHOWN = 10
Admit = Callable[[socket.socket], socket.socket]


class CountingDesk:
    """The service behind one listener; its methods belong to the engine's thread."""

    def __init__(
        self,
        tally: Tally,
        effects: Effects,
        *,
        origin: str,
        scheme: str = "http",
        address: str = "127.0.0.1",
        hold_limit: float | None,
        encrypt: Admit | None = None,
    ) -> None:
        self.hold_limit = hold_limit
        self.forbidden = False
        self.root = ""  # known once it listens
        self._tally = tally
        self._effects = effects
        self._origin = origin
        self._scheme = scheme
        self._address = f"[{address}]" if ":" in address else address
        self._encrypt = encrypt
        self._crowded = False

    def listens(self, port: int) -> None:
        """The listener has this port."""
        self.root = f"{self._scheme}://{self._address}:{port}"

    # -- connections ------------------------------------------------------------------------------------

    def admit(self, sock: socket.socket) -> socket.socket:
        """A connection is accepted."""
        self._connected(allowed=not self.forbidden)
        return sock if self._encrypt is None else self._encrypt(sock)

    def refused(self, why: str, first: bytes) -> None:
        """A client sent what is no request."""
        self._tally.problems.append(f"{self.root} was sent what is no HTTP request: {why}")
        self._connected(allowed=False, first_bytes=first.hex())

    def crowded(self) -> None:
        """A connection was turned away, since too many are open."""
        if not self._crowded:
            self._crowded = True
            self._tally.problems.append(f"more open connections than limit={limits.CONNECTIONS}")
            self._tally.say(CeilingReached, limit=limits.CONNECTIONS)

    def failed(self, error: BaseException) -> None:
        """The server itself broke."""
        self._tally.failed(error)

    def _connected(self, *, allowed: bool, first_bytes: str = "") -> None:
        address = urlsplit(self.root).netloc
        fields = {"origin": self._origin, "address": address, "first_bytes": first_bytes}
        self._tally.say(ConnectionAccepted, allowed=allowed, **fields)

    # -- requests ---------------------------------------------------------------------------------------

    def answer(self, request: HttpRequest) -> tuple[Plan, Exchange]:
        """The plan of an answer, and who is told what became of it."""
        name = self._tally.name()
        if name is None:
            return self._plain(503, "agentguard: more requests than the counting server takes")
        try:
            served = self._tally.find(self._origin, _path(request))
            received = self._receive(name, request, served)
            return self._unrouted(received) if served is None else self._routed(received, served)
        except Exception as error:
            self.failed(error)
            return self._plain(500, f"agentguard: the counting server failed: {type(error).__name__}")

    def _receive(self, name: str, request: HttpRequest, served: Served | None) -> HttpReceived:
        tally, host = self._tally, request.header("host")
        allowed = served is not None and served.route.allowed and not self.forbidden
        received = tally.receive(
            request=name,
            url=self.root + tally.masked(shown_target(request.target)),
            route="" if served is None else served.route.path,
            origin="name" if self._origin == "first" and _is_named(host) else self._origin,
            allowed=allowed,
            method=request.method,
            host=host,
            credentials=credentials(request),
            canaries=tally.found(request),
            key=request.header("idempotency-key"),
            body=tally.masked(cut(request.body)),
            body_bytes=request.size,
        )
        if served is not None and not allowed:
            tally.problems.append(f"request {name} was not allowed: {received.method} {received.url}")
        return received

    def _routed(self, received: HttpReceived, served: Served) -> tuple[Plan, Exchange]:
        tally = self._tally
        route = turn_of(served.route, served.add(received))
        nonce = tally.nonce() if "{nonce}" in route.body and route.does != "redirect" else ""
        plan = plan_of(route, nonce=nonce, notes=self._notes(received, route))
        counted = Counted(
            plan,
            received,
            route,
            served,
            tally=tally,
            effects=self._effects,
            hold_limit=self.hold_limit,
            nonce=nonce,
            retry_after=_seconds(route.retry_after),
        )
        if route.effect and route.does not in ("hold", "slow"):
            counted.affect()
        return plan, counted

    def _notes(self, received: HttpReceived, route: Route) -> tuple[Note, ...]:
        if route.does != "redirect":
            return ()
        asked = self._asked(received)
        target = urljoin(asked, route.to)
        fields = {"request": received.request, "status": route.status, "location": target}
        return (Note(RedirectOffered, {**fields, "elsewhere": _place(target) != _place(asked)}),)

    def _asked(self, received: HttpReceived) -> str:
        """The URL as its client sees it; as we see it where the client names a host that is none."""
        try:
            path = urlsplit(received.url).path
            asked = f"{self._scheme}://{received.host}{path}" if received.host else received.url
            urlsplit(asked)
        except ValueError:
            return self.root
        return asked

    def _unrouted(self, received: HttpReceived) -> tuple[Plan, Exchange]:
        paths = [served.route.path for served in self._tally.served(self._origin)]
        known = ", ".join(paths[:_ROUTES_SHOWN] + ["…"] * (len(paths) > _ROUTES_SHOWN)) or "none"
        said = f"met no route: {received.method} {received.url}; routes here: {known}"
        self._tally.problems.append(f"request {received.request} {said}")
        return self._plain(404, f"agentguard: request {received.request} {said}")

    def _plain(self, status: int, text: str) -> tuple[Plan, Exchange]:
        headers = (("Content-Type", "text/plain; charset=utf-8"),)
        return Plan(status, headers, text.encode(), framing="length"), Silent(_uncounted, self._tally.lane)


def _path(request: HttpRequest) -> str:
    """The path as it came; a client that takes us for a proxy sends a whole URL."""
    target = request.target
    if target.startswith("/"):
        return target.partition("?")[0]
    try:
        return urlsplit(target).path or target
    except ValueError:  # no URL
        return target


def _is_named(host: str) -> bool:
    return host.partition(":")[0].rstrip(".").lower() == "localhost"


def _place(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # a port that is none
        return "", url, None


def _seconds(retry_after: str) -> float | None:
    """What Retry-After means, in seconds from now; None where it is not there or says nothing."""
    try:
        return seconds if isfinite(seconds := float(retry_after)) else None
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return (until.astimezone(UTC) - datetime.now(UTC)).total_seconds()


def _uncounted(size: int) -> None:
    """Nobody counts the bytes of an answer that no route gives."""
