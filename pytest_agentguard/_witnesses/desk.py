"""Answers the requests of an endpoint: records each, serves the reply that fits or says why none does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.contracts import ModelEndpoint
from pytest_agentguard._core.dialect import Dialect, RequestView
from pytest_agentguard._core.events import (
    CeilingReached,
    Event,
    RequestReceived,
    RequestUnmatched,
    TranscriptRejected,
    Witness,
    WitnessFailed,
)
from pytest_agentguard._core.forms import forms
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Recorder
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._core.planning import Setting
from pytest_agentguard._witnesses.delivery import Exchange
from pytest_agentguard._witnesses.exchanges import Silent, Told, WireFiles
from pytest_agentguard._witnesses.http_request import HttpRequest
from pytest_agentguard._witnesses.redirects import with_redirect
from pytest_agentguard._witnesses.requests import Requests
from pytest_agentguard._witnesses.routes import Route, credentials, known_paths, route, shown_headers
from pytest_agentguard._witnesses.script import Script, Scripted

_ANYWHERE = "\0"  # counts the requests of lanes that nobody introduced
_BODY_REMEMBERED = 16 * 1024  # a retry, a sweep and a parametrized test say the same again
_MODEL = ModelEndpoint(dialect="", base_url="", root_url="").model


class Desk:
    """The service behind an endpoint's listener; its methods belong to the engine's thread.

    The options are those of ``Endpoint``.
    """

    def __init__(
        self,
        recorder: Recorder,
        dialects: Mapping[str, Dialect],
        *,
        seed: str,
        strict: bool,
        ceiling: int,
        check_transcripts: bool,
        hold_limit: float | None,
        wire: Path | None,
    ) -> None:
        self.script = Script()
        self.requests = Requests()
        self.problems: list[str] = []
        self.lanes: set[str] = {""}
        self.sent_bytes = 0
        self.hold_limit = hold_limit
        self._recorder = recorder
        self._dialects = dialects
        self._seed = seed
        self._strict = strict
        self._ceiling = ceiling
        self._check_transcripts = check_transcripts
        self._wire = None if wire is None else WireFiles(wire, limit=limits.BODY_BYTES)
        self._received: dict[str, int] = {}  # by lane
        self._turns: dict[str, int] = {}  # completed ones, by lane
        self._crowded = False

    # -- the service of a listener --------------------------------------------------------------------

    def answer(self, request: HttpRequest) -> tuple[Plan, Exchange]:
        """The plan of an answer, and who is told what became of it."""
        where = route(request, self._dialects)
        bucket = where.lane if where.lane in self.lanes else _ANYWHERE
        number = self._received[bucket] = self._received.get(bucket, 0) + 1
        if number > self._ceiling:
            return self._over_ceiling(where, number)
        name = _named(where.lane, f"r{number}") if bucket != _ANYWHERE else f"?/r{number}"
        try:
            return self._received_and_answered(name, where, request)
        except BaseException as error:  # a predicate may raise pytest.fail(), a reply may not be planned
            self.failed(error)
            return self._broken(where, f"agentguard: the endpoint failed: {type(error).__name__}: {error}")

    def _received_and_answered(self, name: str, where: Route, request: HttpRequest) -> tuple[Plan, Exchange]:
        view = self._view(where, request)
        event = self._receive(name, where, request, view)
        if self._wire is not None:
            self._wire.keep(f"{name}.request", _as_received(event, request))
        match where.kind:
            case "models":
                return self._plain(where, 200, self._dialects[where.dialect].models([_MODEL]))
            case "turn":
                return self._turn(event, where, request, view)
        return self._unknown_path(event, where)

    def refused(self, why: str, first: bytes) -> None:
        """A client sent what is no request."""
        number = self._received[_ANYWHERE] = self._received.get(_ANYWHERE, 0) + 1
        if number <= self._ceiling:
            self._unmatched(f"?/r{number}", f"not an HTTP request: {why}")

    def crowded(self) -> None:
        """A connection was turned away, since too many are open."""
        if not self._crowded:
            self._crowded = True
            self._reach(limits.CONNECTIONS, "open connections", "")

    def failed(self, error: BaseException) -> None:
        """The endpoint itself broke, or a predicate of the test did."""
        text = f"{type(error).__name__}: {error}"
        self.problems.append(f"endpoint failed: {text}")
        self._record(WitnessFailed, {"witness": Witness.ENDPOINT, "error": text})

    # -- one request ------------------------------------------------------------------------------------

    def _receive(
        self, name: str, where: Route, request: HttpRequest, view: RequestView | None
    ) -> RequestReceived:
        fields: dict[str, Any] = {
            "witness": Witness.ENDPOINT,
            "lane": where.lane,
            "request": name,
            "method": request.method,
            "path": where.path,
            "dialect": where.dialect,
            "mode": "" if view is None else "stream" if view.stream else "block",
            "kind": where.kind,
            "turn": self._turns.get(where.lane, 0) + 1 if where.kind == "turn" else 0,
            "credentials": credentials(request),
            "headers": shown_headers(request),
            "body": request.body.decode("utf-8", "backslashreplace"),
            "body_bytes": request.size,
        }
        self._record(RequestReceived, fields)
        event = RequestReceived(**fields)
        self.requests.add(event)
        return event

    def _view(self, where: Route, request: HttpRequest) -> RequestView | None:
        """What the dialect reads in the body; None where there is nothing to read."""
        if where.kind != "turn" or request.size > len(request.body):
            return None
        read = _read if len(request.body) <= _BODY_REMEMBERED else _read.__wrapped__
        return read(self._dialects[where.dialect].read, where.path, request.body)

    def _turn(
        self, event: RequestReceived, where: Route, request: HttpRequest, view: RequestView | None
    ) -> tuple[Plan, Exchange]:
        if request.size > len(request.body):
            self._unmatched(event.request, f"body_bytes={request.size} limit={limits.BODY_BYTES}", event.lane)
            return self._error(where, "too-large", f"agentguard: body exceeds {limits.BODY_BYTES} bytes")
        if view is None:
            return self._reject(event, where, "the body is not a JSON object")
        if view.problem and self._check_transcripts:
            return self._reject(event, where, view.problem)
        if view.unsupported:
            return self._plain(where, 400, view.unsupported)
        scripted = self.script.take(event)
        if scripted is None:
            left = self.script.left(event.lane)
            why = f"{left} scripted replies wait, none fits" if left else "no scripted reply is left"
            self._unmatched(event.request, f"{why} (dialect={event.dialect} mode={event.mode})", event.lane)
            return self._error(where, "server", f"agentguard: no scripted reply for request {event.request}")
        return self._scripted(event, scripted, view)

    def _scripted(
        self, event: RequestReceived, scripted: Scripted, view: RequestView
    ) -> tuple[Plan, Exchange]:
        lane, played = event.lane, scripted.played
        stream = _named(lane, "s" + event.request.rpartition("r")[2])
        setting = Setting(
            dialect=self._dialects[event.dialect],
            mode=event.mode,
            ids=CountedIds(f"{self._seed}/{stream}"),
            stream=stream,
            request=event.request,
            lane=lane,
            strict=self._strict,
            tools=view.tools,
        )
        made = with_redirect(forms().plan(scripted.reply, setting), event)
        told = Told(
            made,
            stream,
            lane=lane,
            record=self._record,
            count=self._count,
            played=played,
            completed=lambda: self._turns.update({lane: self._turns.get(lane, 0) + 1}),
            hold_limit=self.hold_limit,
            tap=self._tap(f"{stream}.response"),
        )
        played.requests.append(event)
        if not played.received.is_set():
            played.received.set()
        return made, told

    # -- answers that nobody scripted -------------------------------------------------------------------

    def _reject(self, event: RequestReceived, where: Route, problem: str) -> tuple[Plan, Exchange]:
        fields = {"witness": Witness.ENDPOINT, "lane": event.lane, "request": event.request}
        self._record(TranscriptRejected, {**fields, "problem": problem})
        return self._error(where, "bad-request", problem)

    def _unknown_path(self, event: RequestReceived, where: Route) -> tuple[Plan, Exchange]:
        paths = known_paths(self._dialects)
        if event.method not in ("GET", "HEAD", "OPTIONS"):
            self._unmatched(event.request, f"no dialect has {event.method} {event.path}", event.lane)
        error = {"message": f"agentguard: no {event.method} {event.path} here", "paths": paths}
        return self._plain(where, 404, json.dumps({"error": error}).encode())

    def _over_ceiling(self, where: Route, number: int) -> tuple[Plan, Exchange]:
        if number == self._ceiling + 1:
            self._reach(self._ceiling, "requests", where.lane)
        message = f"agentguard: ceiling of {self._ceiling} requests reached"
        if not where.dialect:
            return self._plain(where, 503, json.dumps({"error": {"message": message}}).encode())
        body = self._dialects[where.dialect].error_body(503, "overloaded", message)
        return self._plain(where, 503, body)

    def _broken(self, where: Route, message: str) -> tuple[Plan, Exchange]:
        if where.dialect:
            return self._error(where, "server", message)
        return self._plain(where, 500, json.dumps({"error": {"message": message}}).encode())

    def _error(self, where: Route, kind: str, message: str) -> tuple[Plan, Exchange]:
        dialect = self._dialects[where.dialect]
        status = dialect.statuses[kind]
        return self._plain(where, status, dialect.error_body(status, kind, message))

    def _plain(self, where: Route, status: int, body: bytes) -> tuple[Plan, Exchange]:
        """A whole JSON answer; an error says that trying again is of no use."""
        dialect = self._dialects.get(where.dialect)
        headers = [("Content-Type", "application/json"), *(dialect.response_headers if dialect else ())]
        headers += [("x-should-retry", "false")] if status >= 400 else []
        return Plan(status, tuple(headers), body, framing="length"), Silent(self._count, where.lane)

    # -- inside -----------------------------------------------------------------------------------------

    def _unmatched(self, request: str, why: str, lane: str = "") -> None:
        self.problems.append(f"request {request} met no scripted reply: {why}")
        fields = {"witness": Witness.ENDPOINT, "lane": lane, "request": request, "why": why}
        self._record(RequestUnmatched, fields)

    def _reach(self, limit: int, what: str, lane: str) -> None:
        self.problems.append(f"more {what} than limit={limit}")
        self._record(CeilingReached, {"witness": Witness.ENDPOINT, "lane": lane, "limit": limit})

    def _record(self, kind: type[Event], fields: dict[str, Any]) -> None:
        self._recorder.record(kind, **fields)

    def _count(self, size: int) -> None:
        self.sent_bytes += size

    def _tap(self, name: str) -> Callable[[bytes], None] | None:
        wire = self._wire
        return None if wire is None else lambda data: wire.keep(name, data)


@lru_cache(maxsize=64)
def _read(read: Callable[[str, Any], RequestView], path: str, body: bytes) -> RequestView | None:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return read(path, said) if isinstance(said, dict) else None


def _named(lane: str, name: str) -> str:
    return f"{lane}/{name}" if lane else name


def _as_received(event: RequestReceived, request: HttpRequest) -> bytes:
    """The request as it came, credentials replaced."""
    lines = [f"{event.method} {event.path} HTTP/{request.version}"]
    lines += [f"{name}: {value}" for name, value in event.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + request.body
