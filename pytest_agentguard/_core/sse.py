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
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {event}\n" if event else ""
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(text))
    return f"{head}{lines}\n".encode("utf-8", "backslashreplace")


class Decoder:
    """Bytes in, events out, at any split. Raises ``LimitReached`` when one event exceeds ``limit`` bytes."""

    def __init__(self, *, limit: int = limits.SSE_EVENT_BYTES) -> None:
        self._limit = limit
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        self._size = 0
        self._after_cr = False
        self._begun = False
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Every event that ``chunk`` completes. The rest waits; at the end of the stream it is discarded."""
        text = self._utf8.decode(chunk)
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        if self._after_cr and text:
            text = text.removeprefix("\n")
            self._after_cr = False
        begin = 0
        for n in _line_ends(text):
            if n < begin:
                continue
            self._line.append(text[begin:n])
            begin = n + 1
            if text[n] == "\r":
                self._after_cr = begin == len(text)
                if text[begin : begin + 1] == "\n":
                    begin += 1
            yield from self._take("".join(self._line))
            self._line.clear()
        rest = text[begin:]
        if rest:
            self._line.append(rest)
            self._grow(len(rest))

    def _grow(self, count: int) -> None:
        self._size += count
        if self._size > self._limit:
            raise LimitReached(f"SSE event longer than limit={self._limit} bytes")

    def _take(self, line: str) -> Iterator[ServerSentEvent]:
        if not line:
            self._size = 0
            if self._data:
                yield ServerSentEvent("\n".join(self._data), self._event or "message", self._id, self._retry)
            self._data, self._event = [], ""
            return
        self._grow(len(line))
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


def _line_ends(text: str) -> Iterator[int]:
    n = 0
    while n < len(text):
        ends = [p for p in (text.find("\n", n), text.find("\r", n)) if p >= 0]
        if not ends:
            return
        n = min(ends)
        yield n
        n += 1
