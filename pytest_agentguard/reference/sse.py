"""Server-sent events: bytes of any split in, whole events out, with a bound (WHATWG event stream)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_agentguard.reference.errors import BrokenReply, ReplyTooLarge, shown

_LINE_END = re.compile(rb"\r\n|\r|\n")  # and nothing else: U+2028 or a form feed may stand inside a value
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event: its name (empty where none was given) and its data."""

    name: str
    data: str


class Decoder:
    """Takes chunks as they come. What no blank line has closed when they end was never an event."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit  # bytes of one event, comments before it included
        self._size = 0
        self._line = bytearray()  # the line that has no end yet
        self._after_cr = False
        self._first = True
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Every event that ``chunk`` completes."""
        for line in self.lines(chunk):
            if line:
                self._grow(len(line))
                self._field(line)
                continue
            if self._data:
                yield ServerSentEvent(self._name, "\n".join(self._data))
            self._name, self._data, self._size = "", [], 0

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Guard: a line ends where the format says, and a chunk may begin and end anywhere."""
        if self._after_cr:  # a line end may itself be split
            chunk, self._after_cr = chunk.removeprefix(b"\n"), not chunk
        if not chunk:
            return
        self._after_cr = chunk.endswith(b"\r")
        *whole, rest = _LINE_END.split(chunk)
        for line in whole:
            if self._line:
                line = bytes(self._line) + line
                self._line.clear()
            if self._first:
                self._first, line = False, line.removeprefix(_BOM)
            yield line
        self._line += rest
        self._grow(0)

    def _grow(self, count: int) -> None:
        self._size += count
        if self._size + len(self._line) > self._limit:
            raise ReplyTooLarge(f"one event is longer than limit={self._limit} bytes")

    def _field(self, line: bytes) -> None:
        if line.startswith(b":"):
            return
        try:
            name, _, value = line.decode().partition(":")
        except UnicodeDecodeError:
            raise BrokenReply(f"an event is not UTF-8: {shown(line)}") from None
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._name = value.removeprefix(" ")
