"""A small scripted model server on a real socket, and jobs that point to it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentguard import RECORD, Limits, ModelEndpoint, Reply
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import End, Hold, Pause, Plan, Repeat, Send
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard.catalogue import dialect as dialect_of

FINAL = "all done, final-91c2"
BOUND = 10.0  # seconds that any wait of these tests may take


@dataclass
class Script:
    """The replies that a server plays, and what it saw."""

    dialect: str
    mode: str
    port: int = 0
    replies: list[Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    sent: int = 0
    release: threading.Event = field(default_factory=threading.Event)
    released_first: list[bool] = field(default_factory=list)  # per hold: whether the release ended it

    @property
    def base_url(self) -> str:
        """The base URL as the dialect's SDK wants it."""
        return f"http://127.0.0.1:{self.port}{dialect_of(self.dialect).base_path}"


class Server:
    """One listener; each connection is served by a thread of its own, one request after the other."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._ids = CountedIds("reference-tests")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        script.port = self._listener.getsockname()[1]
        self._threads[0].start()

    def close(self) -> None:
        """Stop, and wait until every thread has ended."""
        self.script.release.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(BOUND)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(BOUND)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            try:
                while body := _request(reader):
                    if not self._answer(connection, body):
                        return
            except OSError:
                return

    def _answer(self, connection: socket.socket, body: bytes) -> bool:
        script = self.script
        with self._lock:
            script.raw.append(body)
            script.requests.append(json.loads(body))
            reply = (
                script.replies.pop(0) if script.replies else Reply().status(500, message="nothing scripted")
            )
        setting = Setting(dialect_of(script.dialect), script.mode, self._ids)
        return self._play(connection, plan(reply, setting))

    def _play(self, connection: socket.socket, answer: Plan) -> bool:
        chunked = answer.framing == "chunked"
        connection.sendall(_head(answer, len(answer.body)))
        for step in answer.steps():
            match step:
                case Send(data):
                    self._send(connection, data, chunked)
                case Pause(seconds):
                    self.script.release.wait(seconds)
                case Hold():
                    self._hold(connection, step, chunked)
                case Repeat(data, size):
                    for _ in range(size // len(data)):
                        self._send(connection, data, chunked)
        return self._finish(connection, answer, chunked)

    def _send(self, connection: socket.socket, data: bytes, chunked: bool) -> None:
        connection.sendall(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        self.script.sent += len(data)

    def _hold(self, connection: socket.socket, hold: Hold, chunked: bool) -> None:
        connection.setblocking(False)
        try:
            for _ in range(int(hold.limit / 0.02)):
                if self.script.release.wait(0.02):
                    self.script.released_first.append(True)
                    return
                try:
                    if connection.recv(1) == b"":
                        break
                except BlockingIOError:
                    pass
                if hold.drip:
                    self._send(connection, hold.drip, chunked)
        except OSError:
            pass
        finally:
            connection.settimeout(BOUND)
        self.script.released_first.append(False)
        raise ConnectionError("the client left, or the hold reached its limit")

    def _finish(self, connection: socket.socket, answer: Plan, chunked: bool) -> bool:
        if answer.end is End.RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return False
        if answer.end is not End.CLEAN or answer.framing == "close":
            return False
        if chunked:
            connection.sendall(b"0\r\n\r\n")
        return chunked or answer.last == len(answer.body)


def _request(reader: Any) -> bytes | None:
    length = None
    while (line := reader.readline().strip().lower()) or length is not None:
        if not line:
            body: bytes = reader.read(length)
            return body
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return None


def _head(answer: Plan, size: int) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} Status", *(f"{name}: {value}" for name, value in answer.headers)]
    if answer.framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
    elif answer.framing == "length":
        lines.append(f"Content-Length: {size}")
    return "\r\n".join([*lines, "", ""]).encode()


class Tool:
    """A tool that keeps the arguments of its calls."""

    def __init__(self, spec: Any = RECORD, result: str = "recorded", error: Exception | None = None) -> None:
        self.name, self.description, self.parameters = spec.name, spec.description, dict(spec.parameters)
        self.calls: list[dict[str, Any]] = []
        self.result, self.error = result, error

    def run(self, **arguments: Any) -> str:
        """Record the call."""
        self.calls.append(arguments)
        if self.error is not None:
            raise self.error
        return self.result

    async def arun(self, **arguments: Any) -> str:
        """Record the call."""
        return self.run(**arguments)


Play = Callable[..., Script]


@pytest.fixture
def play() -> Iterator[Play]:
    """Start a server that plays replies: ``play("openai-chat", "stream", reply, …)``."""
    servers: list[Server] = []

    def start(dialect: str, mode: str, *replies: Reply) -> Script:
        servers.append(Server(Script(dialect, mode, replies=list(replies))))
        return servers[-1].script

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def job_for() -> Callable[..., Any]:
    """Make a job for a server: ``job_for(script, *tools, idle_timeout=1)``."""

    def make(script: Script, *tools: Tool, prompt: str = "Record the value.", **limits: Any) -> Any:
        limits.setdefault("deadline", BOUND)
        endpoint = ModelEndpoint(
            dialect=script.dialect, base_url=script.base_url, root_url="", api_key="dummy", model="m"
        )
        return SimpleNamespace(
            prompt=prompt, endpoint=endpoint, mode=script.mode, tools=tools, limits=Limits(**limits)
        )

    return make
