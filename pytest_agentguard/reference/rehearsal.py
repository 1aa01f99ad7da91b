"""One run against itself, so that a process that forks has loaded all that a first run would load."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from pytest_agentguard.reference.errors import AgentError

_SECONDS = 5.0  # the longest that a run waits; an answer comes at once, or nothing depends on it
_PARAMETERS = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
_CALL = (
    '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":'
    '{"name":"note","arguments":"{\\"x\\": \\"y\\"}"}}]},"finish_reason":null}]}'
)
_CALLED = '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}'
_TEXT = '{"choices":[{"index":0,"delta":{"content":"done"},"finish_reason":null}]}'
_SAID = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def rehearse(run: Callable[[Any], Any]) -> None:
    """Give ``run`` a job whose model calls a tool, then answers. What comes of it does not matter."""
    with _server((_CALL, _CALLED), (_TEXT, _SAID)) as url, contextlib.suppress(AgentError):
        run(_job(url))


def rehearse_fetch(run: Callable[[Any], Any]) -> None:
    """Give ``run`` a job for a fetch tool; ``known`` is on its list. What comes of it does not matter."""
    with _server((_TEXT,)) as url, contextlib.suppress(AgentError):
        run(SimpleNamespace(allowed={"known": url}, limits=_limits(), token="none", method="GET", body=""))


@contextlib.contextmanager
def _server(*replies: tuple[str, ...]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # it waits for as long as the run needs to load what it loads; the run does not wait for ever
        server = threading.Thread(target=_answer, args=(listener, *replies), daemon=True)
        server.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, where nobody has come
            server.join(_SECONDS)


def _answer(listener: socket.socket, *replies: tuple[str, ...]) -> None:
    with contextlib.suppress(OSError):
        for reply in replies:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                events = "".join(f"data: {data}\n\n" for data in (*reply, "[DONE]"))
                connection.sendall((_HEAD + events).encode())
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # closed with something unread, it would be reset
                    pass


def _job(base_url: str) -> Any:
    """A job with nothing declared and one tool."""

    def note(x: str) -> str:
        return x

    async def anote(x: str) -> str:
        return x

    tool = SimpleNamespace(name="note", description="", parameters=_PARAMETERS, run=note, arun=anote)
    endpoint = SimpleNamespace(dialect="openai-chat", base_url=base_url, api_key="none", model="none")
    return SimpleNamespace(prompt="", endpoint=endpoint, mode="stream", tools=(tool,), limits=_limits())


def _limits() -> Any:
    names = "attempts rounds tool_calls idle_timeout request_timeout deadline output_bytes context_tokens"
    bounds = {"idle_timeout": _SECONDS, "request_timeout": _SECONDS, "deadline": 2 * _SECONDS}
    return SimpleNamespace(**{**dict.fromkeys(names.split()), **bounds})
