"""What the tests of the fetch tools share: a plain server on a real socket, jobs, three ways to call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import anyio

from pytest_agentguard import Limits
from pytest_agentguard.reference.fetch import FetchTool
from pytest_agentguard.reference.fetch_threads import ThreadFetchTool
from pytest_agentguard.reference.retrying import Attempts

BOUND = 10.0  # seconds that anything here may take
Handler = BaseHTTPRequestHandler


class Soon(Attempts):
    """Attempts with pauses that nobody notices."""

    first_wait = 0.001


class QuickTool(FetchTool):
    """The tool with short pauses."""

    attempts = Soon


class QuickThreadTool(ThreadFetchTool):
    """The tool for threads with short pauses."""

    attempts = Soon


@dataclass
class Seen:
    """A request that was read."""

    path: str
    method: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A server that does what ``answer`` says, and what arrived there."""

    url: str
    requests: list[Seen] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def paths(self) -> list[str]:
        """Where requests went, in order."""
        return [seen.path for seen in self.requests]

    def keys(self) -> list[str]:
        """The idempotency keys, in order."""
        return [seen.headers["idempotency-key"] for seen in self.requests]

    def job(
        self, *, method: str = "GET", body: str = "", urls: dict[str, str] | None = None, **limits: Any
    ) -> Any:
        """A job that may fetch ``a`` and ``b``."""
        allowed = urls or {"a": f"{self.url}/a", "b": f"{self.url}/b"}
        return SimpleNamespace(
            allowed=allowed,
            limits=Limits(**{"deadline": BOUND, **limits}),
            token="canary",
            method=method,
            body=body,
        )


@contextmanager
def site(answer: Callable[[Site, Handler], None]) -> Iterator[Site]:
    """A server for one test; what it holds is let go at the end."""

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.requests.append(Seen(self.path, self.command, headers, body))
            found.arrived.release()
            self.close_connection = True
            with contextlib.suppress(OSError):
                answer(found, self)

        do_GET = do_POST = handle_any  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = False
        found = Site(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            found.release.set()
            server.shutdown()
            thread.join(BOUND)


# -- what a server may do -----------------------------------------------------------------------------


def status(code: int, body: bytes = b"ok", **headers: str) -> Callable[[Site, Handler], None]:
    """One status for all, with headers (``retry_after="1"``)."""

    def answer(_: Site, handler: Handler) -> None:
        handler.send_response(code)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def drop(_: Site, handler: Handler) -> None:
    """Read, then closed without an answer."""


def hold(place: Site, handler: Handler) -> None:
    """Nothing until the release, then an answer."""
    place.release.wait(BOUND)
    status(200)(place, handler)


def hold_body(place: Site, handler: Handler) -> None:
    """The head and a piece, then nothing until the release."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"half")
    place.release.wait(BOUND)


def trickle(place: Site, handler: Handler) -> None:
    """A byte now and then until the release."""
    handler.send_response(200)
    handler.end_headers()
    while not place.release.wait(0.02):
        handler.wfile.write(b".")


def endless(place: Site, handler: Handler) -> None:
    """As much as anybody takes."""
    handler.send_response(200)
    handler.end_headers()
    while not place.release.is_set():
        handler.wfile.write(b"x" * 65536)


def in_turn(*answers: Callable[[Site, Handler], None]) -> Callable[[Site, Handler], None]:
    """One after the other; the last one for all that follow."""

    def answer(place: Site, handler: Handler) -> None:
        answers[min(len(place.requests), len(answers)) - 1](place, handler)

    return answer


# -- ways to call -------------------------------------------------------------------------------------


@dataclass
class Way:
    """A fetch tool, called in one of three ways. Outcomes are texts or exceptions."""

    name: str

    def tool(self, job: Any) -> Any:
        """The tool for a job."""
        return QuickThreadTool(job) if self.name == "threads" else QuickTool(job)

    def call(self, tool: Any, *inputs: Any) -> list[Any]:
        """One call after the other."""
        if self.name == "threads":
            return [_outcome(tool, one) for one in inputs]

        async def calls() -> list[Any]:
            return [await _outcome_async(tool, one) for one in inputs]

        return anyio.run(calls, backend=self.name)

    def call_at_once(self, tool: Any, id: str, workers: int) -> list[Any]:
        """All calls side by side."""
        outcomes: list[Any] = []
        if self.name == "threads":
            threads = [
                threading.Thread(target=lambda: outcomes.append(_outcome(tool, id))) for _ in range(workers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(BOUND)
            return outcomes

        async def one() -> None:
            outcomes.append(await _outcome_async(tool, id))

        async def calls() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(one)

        anyio.run(calls, backend=self.name)
        return outcomes


WAYS = [Way("asyncio"), Way("trio"), Way("threads")]


def _outcome(tool: Any, id: Any) -> Any:
    try:
        return tool(id)
    except Exception as error:
        return error


async def _outcome_async(tool: Any, id: Any) -> Any:
    try:
        return await tool(id)
    except Exception as error:
        return error
