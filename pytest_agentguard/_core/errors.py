"""The one family of exceptions: wrong use, protocol broken by the peer, limit reached."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pytest_agentguard._core import limits


class AgentguardError(Exception):
    """Anything that pytest-agentguard raises on purpose."""


class UsageError(AgentguardError):
    """Wrong use: an unknown name, an impossible combination, a value out of range."""


class ProtocolError(AgentguardError):
    """The peer broke the protocol."""


class NotEncrypted(AgentguardError, ConnectionError):
    """A client began with ``first`` where TLS is spoken, which is none."""

    def __init__(self, first: bytes) -> None:
        super().__init__("no TLS handshake; URLs here start with https://")
        self.first = first


class LimitReached(AgentguardError):
    """A bound of ``_core/limits.py`` was reached."""


def look_at_seconds(what: str, seconds: Any) -> None:
    """Raise ``UsageError`` for a time that no witness can wait: none, an endless one, more than a day."""
    is_time = isinstance(seconds, (int, float)) and 0 <= seconds <= limits.TIME_SECONDS  # NaN is not
    if not is_time:
        raise UsageError(f"{what} is a time from 0 to {limits.TIME_SECONDS:g} s, not {seconds!r}")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    hint = nearest(name, names) or f"; known: {', '.join(names) or 'none'}"
    return UsageError(f"unknown {kind} {name!r}{hint}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The question after the name that is nearest to one that does not exist; empty where none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else ""
