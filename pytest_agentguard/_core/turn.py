"""What the model says in one answer: a turn is a tuple of parts, plus how it says that it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

FINISHES = ("stop", "tool_calls", "length", "filter", "refusal", "unknown", "missing")
"""Neutral finish reasons; each dialect maps them to its own words and says whether they permit the calls.

``missing`` leaves the place of the reason empty: the markers come, and the turn is never complete.
"""


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the model, in the fragments in which a stream delivers it."""

    fragments: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.fragments)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model; ``fragments`` joined are the raw arguments, which need not be JSON.

    ``id`` is what stands on the wire: empty for one that is made per response, None to leave it out.
    ``problem`` names what is wrong on purpose: empty, ``broken``, ``invalid`` or ``extra``.
    ``key`` is our own name of the call within the reply; it is given by the reply.
    """

    tool: str
    fragments: tuple[str, ...]
    id: str | None = ""
    problem: str = ""
    key: str = ""

    @property
    def arguments(self) -> str:
        """The raw text of all arguments."""
        return "".join(self.fragments)


Part = Text | ToolCall


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer.

    ``interleaved`` alternates the fragments of its calls; ``indices`` are the wire indices of the calls where
    they are not 0, 1, 2 …; ``usage`` adds the dialect's usage report.
    """

    parts: tuple[Part, ...] = ()
    finish: str = "stop"
    interleaved: bool = False
    indices: tuple[int, ...] = ()
    usage: bool = False

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def text(self) -> str:
        """All text, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(part, fragment) in the order of delivery: interleaved calls alternate, after all text."""
        if not self.interleaved:
            for n, part in enumerate(self.parts):
                yield from ((n, f) for f in range(len(part.fragments)))
            return
        calls = [n for n, part in enumerate(self.parts) if isinstance(part, ToolCall)]
        for n, part in enumerate(self.parts):
            if isinstance(part, Text):
                yield from ((n, f) for f in range(len(part.fragments)))
        longest = max((len(self.parts[n].fragments) for n in calls), default=0)
        for f in range(longest):
            yield from ((n, f) for n in calls if f < len(self.parts[n].fragments))


class Ids(Protocol):
    """Makes the ids of one response; every one is new."""

    def response(self) -> str:
        """An id for the response, without the dialect's prefix."""

    def call(self) -> str:
        """An id for a call, without the dialect's prefix: nine characters of ``[a-zA-Z0-9]``."""

    def nonce(self) -> str:
        """Seven characters of ``[a-z0-9]`` that stand for ``{nonce}``, so that nothing moves."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of an encoded turn, usually one event, and what it means that it has left.

    ``begins`` and ``wholes`` name calls (by ``ToolCall.key``) of which the first, the last byte of arguments
    is in it; ``piece`` is the (part, fragment) that ends with it. ``finish`` marks the frame that carries the
    finish reason, ``marker`` the one that completes the stream in the strict sense. ``event`` is False for a
    piece inside an event.
    """

    data: bytes
    begins: tuple[str, ...] = ()
    wholes: tuple[str, ...] = ()
    piece: tuple[int, int] | None = None
    finish: bool = False
    marker: bool = False
    event: bool = True
