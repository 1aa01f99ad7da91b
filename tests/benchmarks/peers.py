"""Floors and peers: a raw blocking server, starlette under uvicorn, and raw clients that read what comes."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

RECORD = {
    "type": "function",
    "function": {
        "name": "record",
        "description": "Record a value.",
        "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
    },
}
ASKED: dict[str, Any] = {
    "model": "agentguard-model",
    "stream": True,
    "messages": [{"role": "user", "content": "Please record the evidence."}],
    "tools": [RECORD],
}
BODY = json.dumps(ASKED).encode()
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer agentguard-dummy-key"}
_RECEIVE = 256 * 1024


def connected(url: str) -> http.client.HTTPConnection:
    """A client of the standard library, connected."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.connect()
    return connection


def ask(connection: http.client.HTTPConnection, path: str) -> bytes:
    """One request for a turn, and its whole answer; the connection stays."""
    connection.request("POST", path, BODY, HEADERS)
    return connection.getresponse().read()


def ask_once(base_url: str) -> bytes:
    """The same on a connection of its own."""
    connection = connected(base_url)
    try:
        return ask(connection, urlsplit(base_url).path + "/chat/completions")
    finally:
        connection.close()


def drain(port: int, path: str, *, last: bytes = b"0\r\n\r\n") -> int:
    """Ask, read until ``last`` ends the answer, and count the events in it: the least that a client does."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    events = 0
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(head + BODY)
        while data := sock.recv(_RECEIVE):
            events += data.count(b"\n\n")
            if data.endswith(last):
                break
    return events


class RawServer:
    """A blocking server in a thread: it reads a request and sends ready bytes. Nothing is parsed."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="raw-server", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop; a client that is being served is not waited for."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client:
                self._requests(client)

    def _requests(self, client: socket.socket) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = client.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            while len(data) < size:
                data += client.recv(65536)
            data = data[size:]
            client.sendall(self.answer)


@contextmanager
def raw_server(answer: bytes) -> Iterator[RawServer]:
    """A raw blocking server for a while."""
    server = RawServer(answer)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def starlette_server(events: Sequence[bytes], *, compiled: bool = False) -> Iterator[int]:
    """A starlette application that streams ``events`` one by one, under uvicorn in a thread; its port.

    ``compiled`` lets uvicorn choose uvloop and httptools, where they are installed.
    """
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def stream() -> AsyncIterator[bytes]:
        for event in events:
            yield event

    async def answer(request: Request) -> StreamingResponse:
        await request.body()
        return StreamingResponse(stream(), media_type="text/event-stream")

    application = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    parts = {} if compiled else {"loop": "asyncio", "http": "h11"}
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off", **parts))
    sock = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([sock],), name="starlette-server", daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        sock.close()
