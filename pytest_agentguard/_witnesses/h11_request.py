"""Reads HTTP requests from bytes with h11; bounded, and at any split."""

from __future__ import annotations

import h11

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import ProtocolError
from pytest_agentguard._witnesses.http_request import FIRST_BYTES, HttpRequest

_TLS = b"\x16\x03"


class H11Reader:
    """Bytes in, one request out, whatever shape it has."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HEAD_BYTES)
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._kept = 0
        self._size = 0
        self._done = False
        self.first = b""  # what came first, cut

    def feed(self, data: bytes) -> None:
        """Take bytes as they come."""
        if not self.first:
            data = data.lstrip(b"\r\n")  # as every reader of requests does
            if not data:
                return
        if len(self.first) < FIRST_BYTES:
            self.first += data[: FIRST_BYTES - len(self.first)]
        self._http.receive_data(data)

    def next(self) -> HttpRequest | None:
        """The request once it is whole. Raises ``ProtocolError`` for what is none or exceeds the bounds."""
        while not self._done:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                why = (
                    "a TLS handshake; URLs here start with http://"
                    if self.first.startswith(_TLS)
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

    @property
    def rest(self) -> bytes:
        """What came after the request."""
        return bytes(self._http.trailing_data[0])

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
