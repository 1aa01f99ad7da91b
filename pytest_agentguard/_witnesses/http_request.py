"""Reads HTTP requests from bytes; bounded, and at any split.

h11 reads them. What nearly every client sends, a plain head in one piece, is read here in the same way and at
a tenth of the cost; whatever is not exactly of that shape goes to h11, which is imported then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentguard._core import limits

if TYPE_CHECKING:
    from pytest_agentguard._witnesses.h11_request import H11Reader

FIRST_BYTES = 16  # kept to show what came, where it is no request
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINE = re.compile(r"(GET|POST) ([!-~]+) HTTP/1\.1")
_FIELD = re.compile(r"\r\n([0-9A-Za-z-]+): ([!-~]+(?: [!-~]+)*)(?=\r\n)")
_NOT_PLAIN = frozenset({"transfer-encoding", "expect", "upgrade"})  # what changes how a request is read


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One whole request. Header names are lower case; ``body`` is cut at the bound, ``size`` is what came."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    size: int = 0
    version: str = "1.1"

    def header(self, name: str) -> str:
        """The values of a header, joined by commas; empty where it is absent."""
        return ", ".join([value for known, value in self.headers if known == name])

    @property
    def wants_close(self) -> bool:
        """Whether the connection ends with the answer."""
        said = self.header("connection").lower()
        return self.version != "1.1" or (said != "" and "close" in {t.strip() for t in said.split(",")})


class RequestReader:
    """Bytes in, one request out; what follows it is handed to the reader of the next one."""

    __slots__ = ("_data", "_h11", "_plain", "_size", "untouched")

    def __init__(self) -> None:
        self.untouched = True  # no byte of a request has come
        self._data: list[bytes] = []
        self._size = 0
        self._plain: PlainHead | None = None
        self._h11: H11Reader | None = None

    def feed(self, data: bytes) -> None:
        """Take bytes as they come."""
        if self.untouched:
            data = data.lstrip(b"\r\n")  # empty lines before a request mean nothing (RFC 9112, 2.2)
            if not data:
                return
        self.untouched = False
        if self._h11 is not None:
            self._h11.feed(data)
            return
        self._data.append(data)
        self._size += len(data)

    def next(self) -> HttpRequest | None:
        """The request once it is whole. Raises ``ProtocolError`` for what is none or exceeds the bounds."""
        if self._h11 is not None:
            return self._h11.next()
        if self.untouched:
            return None
        if self._plain is None:
            self._plain = plain_head(self._joined())
        plain = self._plain
        if plain is None:
            return self._hand_over().next()
        if self._size < plain.stop:
            return None
        body = self._joined()[plain.begin : plain.stop]
        return HttpRequest(plain.method, plain.target, plain.headers, body, len(body))

    @property
    def first(self) -> bytes:
        """What came first, for people."""
        if self._h11 is not None:
            return self._h11.first
        return self._joined()[:FIRST_BYTES] if self._data else b""

    def wants_continue(self) -> bool:
        """Whether the client waits for ``100 Continue``; true once."""
        return self._h11 is not None and self._h11.wants_continue()

    def following(self) -> RequestReader:
        """The reader of the next request on this connection, with the bytes that came already."""
        reader = RequestReader()
        if self._h11 is not None:
            rest = self._h11.rest
        else:
            rest = b"" if self._plain is None else self._joined()[self._plain.stop :]
        if rest:
            reader.feed(rest)
        return reader

    def _joined(self) -> bytes:
        if len(self._data) != 1:
            self._data = [b"".join(self._data)]
        return self._data[0]

    def _hand_over(self) -> H11Reader:
        from pytest_agentguard._witnesses.h11_request import H11Reader

        self._h11 = H11Reader()
        self._h11.feed(self._joined())
        self._data = []
        return self._h11


@dataclass(frozen=True, slots=True)
class PlainHead:
    """The head of a plain request, and where its body begins and stops."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    begin: int
    stop: int


def plain_head(data: bytes) -> PlainHead | None:
    """The head that ``data`` begins with, as h11 reads it; None where it is not plain or not whole."""
    end = data.find(b"\r\n\r\n", 0, limits.HEAD_BYTES)
    head = data[: end + 2].decode("latin-1") if end >= 0 else ""
    line = _LINE.match(head)
    if line is None:
        return None
    fields = _FIELD.findall(head, line.end())
    if line.end() + sum([len(name) + len(value) + 4 for name, value in fields]) != end:
        return None  # a line of another shape
    headers = [(name.lower(), value) for name, value in fields]
    known = dict(headers)
    if len(known) != len(headers) or "host" not in known or not _NOT_PLAIN.isdisjoint(known):
        return None
    size = known.get("content-length", "0")
    if not (size.isascii() and size.isdigit() and len(size) < 10) or int(size) > limits.BODY_BYTES:
        return None
    method, target = line.groups()
    return PlainHead(method, target, tuple(headers), end + 4, end + 4 + int(size))
