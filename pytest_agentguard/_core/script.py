"""What goes into a reply besides the model's turn: positions, whole HTTP answers, inserts, floods, splits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_agentguard._core.dialect import ERROR_STATUS
from pytest_agentguard._core.errors import UsageError, unknown_name

NONCE = "{nonce}"


@dataclass(frozen=True, slots=True)
class Where:
    """A position in a reply that does not depend on the dialect.

    ``what``: ``start`` · ``byte`` n · ``event`` n (after n events) · ``piece`` (after fragment ``fragment``
    of part ``part``) · ``before-finish`` (the last byte before the finish event) · ``after-finish`` (the
    finish event has left, the strict marker has not) · ``end``.
    """

    what: str
    n: int = 0
    part: int = 0
    fragment: int = 0


START = Where("start")
BEFORE_FINISH = Where("before-finish")
AFTER_FINISH = Where("after-finish")
END = Where("end")


def at_byte(n: int) -> Where:
    """After ``n`` bytes of the body."""
    if n < 0:
        raise UsageError(f"at_byte() takes a position from 0, not {n}")
    return Where("byte", n)


def after_event(n: int) -> Where:
    """After ``n`` whole events of the stream (a body that is not streamed is one event)."""
    return Where("event", n)


@dataclass(frozen=True, slots=True)
class Http:
    """A whole HTTP answer that is not a model's turn.

    ``body`` None stands for the dialect's own error body for ``kind``.
    """

    status: int
    kind: str = ""
    content_type: str = "application/json"
    body: bytes | None = b""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """Bytes put into the stream: ``what`` is ``error``, ``keep-alive``, ``done`` or ``raw``."""

    where: Where
    what: str
    kind: str = ""
    message: str = ""
    data: bytes = b""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Flood:
    """Something endless: ``event`` (one that never ends), ``keep-alive``, or ``text`` (healthy deltas)."""

    what: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Split:
    """Where HTTP chunks begin: every ``each`` bytes, at the offsets ``at``, or ``by`` a kind of place.

    ``by`` is ``event``, ``utf-8`` (inside every multi-byte character) or ``newline`` (between CR and LF, and
    between two line ends).
    """

    each: int = 0
    at: tuple[int, ...] = ()
    by: str = ""


KINDS: Mapping[str, str] = {
    "cut": "the body ends cleanly before it is complete",
    "protocol-cut": "the body ends against the protocol",
    "reset": "the connection is reset",
    "stall": "nothing more comes, and the connection stays",
    "drip": "only keep-alives go on",
    "keep-open": "all has left, and the connection stays open",
    "missing-finish": "the markers come without a finish reason",
    "error-event": "the provider reports an error in mid-stream",
    "status-NNN": "an HTTP status other than 200, as in `status-503`",
    "redirect": "an HTTP redirect",
    "json-error": "the provider's error as the body",
    "html": "an HTML page",
    "challenge": "the page of a bot challenge",
    "raw-body": "bytes that are no answer of the dialect",
    "content-type": "another content type than the dialect's",
    "nothing": "not one byte of a body",
    "only-done": "nothing but the completion marker",
    "flood-event": "one event that never ends",
    "flood-keep-alive": "keep-alives without end",
    "flood-text": "text without end",
}
"""Every kind of fault that a reply can have, which rules read as ``ReplyStarted.fault``, in words."""


def look_at_fault(kind: str) -> None:
    """Raise ``UsageError`` for a kind of fault that no rule knows."""
    if kind and kind not in KINDS and not re.fullmatch(r"status-[1-5]\d\d", kind):
        raise unknown_name("kind of fault", kind, KINDS)


def look_at_error(kind: str) -> None:
    """Raise ``UsageError`` for a kind of error that no dialect has."""
    if kind not in ERROR_STATUS:
        raise unknown_name("kind of error", kind, ERROR_STATUS)


PAGE = "<!doctype html><html><head><title>Service</title></head><body><h1>It works!</h1></body></html>"
CHALLENGE = "<!doctype html><html><head><title>Just a moment...</title></head><body>Checking</body></html>"


def kind_of(status: int) -> str:
    """The neutral kind of error that an HTTP status stands for."""
    by_status = {
        401: "auth",
        403: "forbidden",
        404: "not-found",
        413: "too-large",
        422: "unprocessable",
        429: "rate-limit",
    }
    return by_status.get(
        status, "overloaded" if status in (503, 529) else "server" if status >= 500 else "bad-request"
    )
