"""What the tests of the endpoint share: a tiny dialect, an endpoint with a ledger, a client of bytes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_agentguard import Dialect, Finish, Frame, Ids, Ledger, RequestView, Text, ToolCall, Turn
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine

LIMIT = 5.0  # s that any wait of these tests may take
TURN = "/v1/tiny"


def _encode(turn: Turn, mode: str, ids: Ids) -> tuple[Frame, ...]:
    frames = []
    for n, k in turn.pieces():
        part = turn.parts[n]
        if isinstance(part, Text):
            frames.append(Frame(f"data: {part.fragments[k]}\n\n".encode(), piece=(n, k)))
        else:
            frames.append(_call(part, n, k))
    frames.append(Frame(b"data: finish\n\n", finish=True))
    frames.append(Frame(b"data: done\n\n", marker=True))
    return tuple(frames)


def _call(part: ToolCall, n: int, k: int) -> Frame:
    last = k == len(part.fragments) - 1
    return Frame(
        f"data: {part.tool} {part.fragments[k]}\n\n".encode(),
        begins=(part.key,) if k == 0 else (),
        wholes=(part.key,) if last else (),
        piece=(n, k),
    )


def _read(path: str, body: Mapping[str, Any]) -> RequestView:
    return RequestView(
        stream=bool(body.get("stream")),
        problem=str(body.get("problem", "")),
        unsupported=str(body.get("unsupported", "")).encode(),
    )


def _error(status: int, kind: str, message: str) -> bytes:
    return json.dumps({"tiny": {"kind": kind, "message": message}}).encode()


TINY = Dialect(
    paths=("/tiny",),
    models_path="/models",
    base_path="/v1",
    environment={"TINY_URL": "base_url", "TINY_KEY": "api_key"},
    finishes={name: Finish(name, True) for name in ("stop", "tool_calls")},
    encode=_encode,
    read=_read,
    error_body=_error,
    error_event=lambda kind, message: f"event: error\ndata: {kind}\n\n".encode(),
    models=lambda names: json.dumps(list(names)).encode(),
    done=b"data: done\n\n",
    keep_alive=b": keep\n\n",
    id="tiny",
)


@contextmanager
def serving(**options: Any) -> Iterator[tuple[Endpoint, Ledger]]:
    """An endpoint of the tiny dialect (unless ``dialects`` says otherwise) and the ledger it records into."""
    ledger = Ledger(clock=time.monotonic)
    engine = Engine()
    dialects = options.pop("dialects", {"tiny": TINY})
    try:
        with Endpoint(ledger, dialects, engine=engine, **options) as endpoint:
            yield endpoint, ledger
    finally:
        engine.stop()


@dataclass(frozen=True)
class Answer:
    """One answer as it came: status, headers by lower-case name, and the raw bytes after the head."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def chunks(self) -> list[bytes]:
        """The HTTP chunks, the last empty one too where it came."""
        chunks, rest = [], self.raw
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            chunks.append(rest[: int(size, 16)])
            rest = rest[int(size, 16) + 2 :]
        return chunks

    @property
    def body(self) -> bytes:
        """The body without its framing."""
        return b"".join(self.chunks) if "transfer-encoding" in self.headers else self.raw


class Client:
    """A connection that sends what it is told to."""

    def __init__(self, endpoint: Endpoint, *, buffer: int = 0) -> None:
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(LIMIT)
        self.socket.connect(("127.0.0.1", endpoint.port))
        self.buffer = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> Client:
        """Send bytes."""
        self.socket.sendall(data)
        return self

    def post(self, path: str = TURN, body: Any = None, **headers: str) -> Client:
        """Send a request."""
        return self.send(request(path, body, **headers))

    def until(self, mark: bytes) -> bytes:
        """What comes up to ``mark``, which must come."""
        searched = 0
        while self.buffer.find(mark, max(0, searched - len(mark))) < 0:
            searched = len(self.buffer)
            data = self.socket.recv(1 << 20)
            assert data, f"the connection ended before {mark!r}; so far {self.buffer!r}"
            self.buffer += data
        found, _, self.buffer = self.buffer.partition(mark)
        return found + mark

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next answer."""
        first, *lines = self.until(b"\r\n\r\n").decode().strip().split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return int(first.split(" ")[1]), {name.lower(): value for name, _, value in pairs}

    def answer(self) -> Answer:
        """The next answer, framed by chunks or by its length."""
        status, headers = self.head()
        if "transfer-encoding" in headers:
            return Answer(status, headers, self.until(b"0\r\n\r\n"))
        size = int(headers.get("content-length", "0"))
        while len(self.buffer) < size:
            data = self.socket.recv(65536)
            assert data, "the connection ended inside a body"
            self.buffer += data
        raw, self.buffer = self.buffer[:size], self.buffer[size:]
        return Answer(status, headers, raw)

    def rest(self) -> bytes:
        """Everything up to the end of the connection. Raises ``ConnectionResetError`` where it is reset."""
        while data := self.socket.recv(65536):
            self.buffer += data
        found, self.buffer = self.buffer, b""
        return found

    def whole(self) -> Answer:
        """The next answer, ended by the connection."""
        status, headers = self.head()
        return Answer(status, headers, self.rest())


def request(path: str = TURN, body: Any = None, **headers: str) -> bytes:
    """A POST as bytes; header names with underscores for dashes."""
    data = json.dumps({"stream": True} if body is None else body).encode()
    named = {"Host": "x", "Content-Length": str(len(data)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items()]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode() + data


def ask(endpoint: Endpoint, path: str = TURN, body: Any = None, **headers: str) -> Answer:
    """One request on a connection of its own, and its answer."""
    with Client(endpoint) as client:
        return client.post(path, body, **headers).answer()
