"""What the tests of the counting server share: a server with a ledger, and requests as bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from pytest_agentguard import Ledger
from pytest_agentguard._witnesses.counting_server import CountingServer
from pytest_agentguard._witnesses.engine import Engine

LIMIT = 5.0  # s that any wait of these tests may take
CLIENT: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": LIMIT}


@contextmanager
def counting(**options: Any) -> Iterator[tuple[CountingServer, Ledger]]:
    """A counting server and the ledger it records into."""
    ledger = Ledger(clock=time.monotonic)
    engine = Engine()
    try:
        with CountingServer(ledger, engine=engine, **options) as server:
            yield server, ledger
    finally:
        engine.stop()


def get(url: str, **options: Any) -> httpx.Response:
    """One GET; no proxy, no redirect."""
    return httpx.get(url, **{**CLIENT, **options})


def post(url: str, **options: Any) -> httpx.Response:
    """One POST; no proxy, no redirect."""
    return httpx.post(url, **{**CLIENT, **options})


def asked(path: str, *lines: str, method: str = "GET", host: str = "x") -> bytes:
    """A request as bytes."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()
