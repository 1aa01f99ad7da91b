"""How a thread that waits for bytes is woken: another thread shuts the connection down under it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


class Lifeline:
    """The open connections of an agent; ``cut`` ends whatever waits on them, for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._is_cut = False

    @contextmanager
    def of_exchange(self) -> Iterator[dict[str, Any]]:
        """The ``extensions`` of one request: httpx says there when its connection is made."""
        mine: set[socket.socket] = set()

        def seen(event: str, info: dict[str, Any]) -> None:
            if event in _CONNECTED:
                mine.add(self._add(info["return_value"].get_extra_info("socket")))

        try:
            yield {"trace": seen}
        finally:
            with self._lock:
                self._sockets -= mine

    def cut(self) -> None:
        """Guard: shut down what is open now, and what will be. Called from any thread."""
        with self._lock:
            self._is_cut = True
            for one in self._sockets:
                _shut(one)

    def _add(self, one: socket.socket) -> socket.socket:
        with self._lock:
            self._sockets.add(one)
            if self._is_cut:
                _shut(one)
        return one


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
