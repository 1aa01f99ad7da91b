"""Reads HTTP requests from bytes; bounded, and at any split."""

from __future__ import annotations

from dataclasses import dataclass

import h11

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import ProtocolError

_TLS = b"\x16\x03"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


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
        return ", ".join(value for known, value in self.headers if known == name)

    @property
    def wants_close(self) -> bool:
        """Whether the connection ends with the answer."""
        tokens = {token.strip() for token in self.header("connection").lower().split(",")}
        return self.version != "1.1" or "close" in tokens


class RequestReader:
    """Bytes in, one request out; what follows it is handed to the reader of the next one."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HEAD_BYTES)
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._kept = 0
        self._size = 0
        self._done = False
        self._first = b""
        self.untouched = True  # no byte of a request has come

    def feed(self, data: bytes) -> None:
        """Take bytes as they come."""
        self.untouched = False
        self._first = self._first or data[:2]
        self._http.receive_data(data)

    def next(self) -> HttpRequest | None:
        """The request once it is whole. Raises ``ProtocolError`` for what is none or exceeds the bounds."""
        while not self._done:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                why = (
                    "a TLS handshake; URLs here start with http://"
                    if self._first == _TLS
                    else str(error)[: limits.TEXT_SHOWN]
                )
                raise ProtocolError(why) from error
            match event:
                case h11.Request():
                    self._head = event
                case h11.Data():
                    self._keep(bytes(event.data))
                case h11.EndOfMessage():
                    self._done = True
                case _:
                    return None
        return self._request()

    def wants_continue(self) -> bool:
        """Whether the client waits for ``100 Continue``; true once."""
        if not self._http.they_are_waiting_for_100_continue:
            return False
        self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
        return True

    def following(self) -> RequestReader:
        """The reader of the next request on this connection, with the bytes that came already."""
        reader = RequestReader()
        data, _ = self._http.trailing_data
        if data:
            reader.feed(data)
        return reader

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        room = limits.BODY_BYTES - self._kept
        if room > 0:
            self._body.append(data[:room])
            self._kept += len(self._body[-1])

    def _request(self) -> HttpRequest:
        head = self._head
        assert head is not None
        return HttpRequest(
            method=head.method.decode("ascii"),
            target=head.target.decode("latin-1"),
            headers=tuple((n.decode("ascii"), v.decode("latin-1")) for n, v in head.headers),
            body=b"".join(self._body),
            size=self._size,
            version=head.http_version.decode("ascii"),
        )
