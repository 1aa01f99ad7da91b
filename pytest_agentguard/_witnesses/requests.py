"""The requests that an endpoint has received, as events."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from pytest_agentguard._core.events import RequestReceived


class Requests:
    """The requests for a model's turn, as events, in order of arrival."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._all: list[RequestReceived] = []
        self._turns: list[RequestReceived] = []

    def __iter__(self) -> Iterator[RequestReceived]:
        return iter(tuple(self._turns))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, n: int) -> RequestReceived:
        return self._turns[n]

    def __repr__(self) -> str:
        return f"<Requests count={self.count}>"

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._turns)

    @property
    def all(self) -> tuple[RequestReceived, ...]:
        """Every request, those for the list of models and for unknown paths too."""
        return tuple(self._all)

    def wait(self, n: int, timeout: float) -> bool:
        """Block until ``n`` requests have arrived, for ``timeout`` seconds at most; whether they have."""
        with self._arrived:
            return self._arrived.wait_for(lambda: self.count >= n, timeout)

    def add(self, request: RequestReceived) -> None:
        """One more has arrived."""
        with self._arrived:
            self._all.append(request)
            if request.kind == "turn":
                self._turns.append(request)
            self._arrived.notify_all()
