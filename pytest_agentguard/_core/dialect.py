"""What a dialect is: one provider's streaming format, as data and pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_agentguard._core.turn import Frame, Ids, Turn

ERROR_STATUS: Mapping[str, int] = {
    "bad-request": 400,
    "context": 400,
    "auth": 401,
    "forbidden": 403,
    "not-found": 404,
    "too-large": 413,
    "unprocessable": 422,
    "rate-limit": 429,
    "quota": 429,
    "server": 500,
    "overloaded": 503,
}
"""Neutral kinds of error and the status that each has unless the dialect says otherwise."""


@dataclass(frozen=True, slots=True)
class Finish:
    """A finish reason on the wire (None: its place is empty), and whether it permits the offered calls."""

    wire: str | None
    permits: bool


@dataclass(frozen=True, slots=True)
class RequestView:
    """What an endpoint reads of a request: how to answer, what was offered, which results came back."""

    stream: bool
    model: str = ""
    tools: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()  # of calls in the transcript
    result_ids: tuple[str, ...] = ()  # of results in the transcript
    problem: str = ""  # why a real provider would reject the transcript; empty: it would not
    unsupported: bytes = b""  # body of a 400 for a valid request for something that no endpoint here offers


@dataclass(frozen=True, slots=True)
class Sample:
    """A turn and the exact JSON events that the provider's documentation gives for it (a body is one event).

    They hold for ids whose ``response()`` is ``"1"``; a marker that is not JSON is given as its text.
    """

    turn: Turn
    mode: str
    events: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One provider's format.

    ``paths`` are the ends of request paths that it answers (``/chat/completions``); ``base_path`` is what its
    SDK's base URL has after the root. ``environment`` maps variables of its SDK to ``base_url`` or
    ``api_key``. ``finishes`` maps neutral finish reasons to the wire. ``encode(turn, mode, ids)`` gives the
    frames of a reply, ``read(path, body)`` the view of a request; ``error_body(status, kind, message)`` and
    ``error_event(kind, message)`` the provider's errors; ``statuses`` overrides ``ERROR_STATUS``. ``done`` is
    the completion marker alone, ``keep_alive`` one keep-alive that every client of the dialect must bear,
    ``models(names)`` the answer to a model-list request, ``response_headers`` what every response carries.
    ``call_prefix`` is what the ids of calls start with where the reply does not name them.
    """

    paths: tuple[str, ...]
    models_path: str
    base_path: str
    environment: Mapping[str, str]
    finishes: Mapping[str, Finish]
    encode: Callable[[Turn, str, Ids], tuple[Frame, ...]]
    read: Callable[[str, Mapping[str, Any]], RequestView]
    error_body: Callable[[int, str, str], bytes]
    error_event: Callable[[str, str], bytes]
    models: Callable[[Sequence[str]], bytes]
    done: bytes
    keep_alive: bytes
    content_type: str = "text/event-stream"
    statuses: Mapping[str, int] = field(default_factory=lambda: ERROR_STATUS)
    response_headers: tuple[tuple[str, str], ...] = ()
    call_prefix: str = ""
    samples: Sequence[Sample] = ()
    id: str = ""  # given by the catalogue from the file name
    summary: str = ""
