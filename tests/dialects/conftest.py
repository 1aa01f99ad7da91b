"""A small real server that answers in one dialect, so that the official SDKs parse what it sends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from pytest_agentguard import Dialect, Turn
from pytest_agentguard._core.ids import CountedIds


class Provider:
    """Answers each request with the next turn, or as ``answer`` says; keeps the requests."""

    def __init__(self, dialect: Dialect, url: str) -> None:
        self.dialect = dialect
        self.base_url = url + dialect.base_path
        self.turns: list[Turn] = []
        self.answer: tuple[int, bytes] | None = None
        self.requests: list[dict[str, Any]] = []
        self.rejected: list[str] = []
        self._ids = CountedIds("tests")

    def reply(self, path: str, body: Mapping[str, Any]) -> tuple[int, str, bytes]:
        """Status, content type and body for a request."""
        self.requests.append(dict(body))
        view = self.dialect.read(path, body)
        if self.answer is not None:
            status, data = self.answer
            return status, self.dialect.content_type if view.stream else "application/json", data
        if view.problem or view.unsupported:
            self.rejected.append(view.problem or "unsupported")
            error = view.unsupported or self.dialect.error_body(400, "bad-request", view.problem)
            return 400, "application/json", error
        mode = "stream" if view.stream else "block"
        frames = self.dialect.encode(self.turns.pop(0), mode, self._ids)
        content_type = self.dialect.content_type if view.stream else "application/json"
        return 200, content_type, b"".join(frame.data for frame in frames)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: Provider


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(*self.server.provider.reply(self.path, body))

    def do_GET(self) -> None:
        self._send(200, "application/json", self.server.provider.dialect.models(["m-1", "m-2"]))

    def _send(self, status: int, content_type: str, data: bytes) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", content_type), *self.server.provider.dialect.response_headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def provider(dialect: Dialect) -> Iterator[Provider]:
    """The server, in the dialect of the test module."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.provider = Provider(dialect, f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server.provider
        server.shutdown()
        thread.join(5)
