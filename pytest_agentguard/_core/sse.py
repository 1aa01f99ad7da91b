"""Server-sent events: encoding, and a bounded decoder that takes chunks of any size (WHATWG event stream)."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import LimitReached

_LINE_END = re.compile("\r\n|\r|\n")
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One dispatched event."""

    data: str
    event: str = "message"
    id: str = ""
    retry: int | None = None


def encode_event(data: str | dict[str, Any], event: str = "") -> bytes:
    """One event as bytes; a dict becomes compact JSON, text with line ends becomes several data lines.

    A lone surrogate, which UTF-8 lacks, is written as its JSON escape.
    """
    if isinstance(data, str):
        lines = "".join(f"data: {line}\n" for line in _LINE_END.split(data))
    else:
        lines = f"data: {_COMPACT.encode(data)}\n"  # JSON escapes line ends
    head = f"event: {event}\n" if event else ""
    return f"{head}{lines}\n".encode("utf-8", "backslashreplace")


class Decoder:
    """Bytes in, events out, at any split.

    One event may have ``limit`` bytes, comments counted and line ends not; one more raises ``LimitReached``.
    An event has the last id and the last retry time seen in the stream, as the format has it.
    """

    def __init__(self, *, limit: int = limits.SSE_EVENT_BYTES) -> None:
        self._limit = limit
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []  # pieces of the unfinished line
        self._size = 0
        self._after_cr = False
        self._begun = False
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Every event that ``chunk`` completes. The rest waits; at the end of the stream it is discarded."""
        *lines, rest = _LINE_END.split(self._text(chunk))
        for line in lines:
            self._keep(line)
            whole = "".join(self._line)
            self._line.clear()
            yield from self._take(whole)
        self._keep(rest)

    def _text(self, chunk: bytes) -> str:
        """The text of a chunk, without the BOM of the stream and without the LF of a CRLF cut in two."""
        text = self._utf8.decode(chunk)
        if not text:
            return ""
        dropped = "\n" if self._after_cr else "" if self._begun else "\ufeff"
        self._begun, self._after_cr = True, text.endswith("\r")
        return text.removeprefix(dropped)

    def _keep(self, piece: str) -> None:
        self._line.append(piece)
        self._size += len(piece.encode())
        if self._size > self._limit:
            raise LimitReached(f"SSE event longer than limit={self._limit} bytes")

    def _take(self, line: str) -> Iterator[ServerSentEvent]:
        if not line:
            self._size = 0
            if self._data:
                yield ServerSentEvent("\n".join(self._data), self._event or "message", self._id, self._retry)
            self._data, self._event = [], ""
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self._retry = int(value)
