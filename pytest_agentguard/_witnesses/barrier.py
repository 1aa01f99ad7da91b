"""The barrier: a request that is answered once what was sent before it is read and a stop is on record."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, urlsplit

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import StopRequested, Witness
from pytest_agentguard._core.ledger import Recorder
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._witnesses.connection import Service
from pytest_agentguard._witnesses.delivery import Exchange
from pytest_agentguard._witnesses.exchanges import Silent
from pytest_agentguard._witnesses.http_request import HttpRequest

PATH = "/agentguard/barrier"  # no dialect has it


class Barrier:
    """What listeners have in common that are read together before a stop is recorded.

    Asked with ``by``, ``at``, ``again`` and ``lane`` in the query, it reads everything that clients have sent
    so far to any of the listeners, records ``StopRequested`` and answers 204. Its path has a token that only
    ``url`` knows: whatever else is asked is a request like any other. What a client sends ahead on a
    connection that is still being answered is a request only when its turn comes.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._path = f"{PATH}/{secrets.token_urlsafe(16)}"
        self._drains: list[Callable[[], None]] = []
        self._others: list[Barrier] = []

    def add(self, drain: Callable[[], None]) -> None:
        """One more listener, by what reads everything that was sent to it."""
        self._drains.append(drain)

    def join(self, other: Barrier) -> None:
        """Read the listeners of both before a stop is recorded by either."""
        self._others.append(other)
        other._others.append(self)

    def before(self, service: Service) -> Service:
        """The service, with the barrier in front of it."""
        return _Guarded(self, service)

    def url(self, root_url: str, lane: str = "") -> str:
        """Where the barrier is asked; ``&by=…&at=…&again=…`` may follow."""
        return f"{root_url}{self._path}?lane={quote(lane, safe='')}"

    def is_asked(self, request: HttpRequest) -> bool:
        """Whether the request is for the barrier: by GET, at its path, not below it."""
        path = request.target.partition("?")[0]
        return request.method == "GET" and secrets.compare_digest(path.encode(), self._path.encode())

    def drain(self) -> None:
        """Read everything that has been sent to the listeners of this side."""
        for drain in self._drains:
            drain()

    def stop(self, request: HttpRequest) -> tuple[Plan, Exchange]:
        """Read, record, and the answer."""
        asked = dict(parse_qsl(urlsplit(request.target).query))
        self.drain()
        for other in self._others:
            other.drain()
        lane = asked.get("lane", "")
        self._recorder.record(
            StopRequested,
            witness=Witness.RUNNER,
            lane=lane,
            by=asked.get("by", "cancel")[: limits.TEXT_SHOWN],
            at=asked.get("at", "")[: limits.TEXT_SHOWN],
            again=asked.get("again", "").lower() in ("1", "true"),
        )
        return Plan(204, framing="length"), Silent(_uncounted, lane)


class _Guarded:
    """A service that is not asked for the barrier."""

    def __init__(self, barrier: Barrier, service: Service) -> None:
        self.hold_limit = service.hold_limit
        self._barrier = barrier
        self._service = service

    def answer(self, request: HttpRequest) -> tuple[Plan, Exchange]:
        """The plan of an answer, and who is told what became of it."""
        if self._barrier.is_asked(request):
            return self._barrier.stop(request)
        return self._service.answer(request)

    def refused(self, why: str, first: bytes) -> None:
        """A client sent what is no request."""
        self._service.refused(why, first)

    def crowded(self) -> None:
        """A connection was turned away, since too many are open."""
        self._service.crowded()

    def failed(self, error: BaseException) -> None:
        """The witness itself broke."""
        self._service.failed(error)


def _uncounted(size: int) -> None:
    """Nobody counts the bytes of this answer; it has none."""
