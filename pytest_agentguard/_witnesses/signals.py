"""Something that happens once and can be waited for from a thread, from asyncio and from trio."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import LimitReached
from pytest_agentguard._witnesses.gate import Gate


class Signal:
    """Set once, by any thread; ``await signal`` works under asyncio and trio, ``signal.wait(5)`` anywhere.

    An ``await`` that takes longer than ``limit`` seconds raises ``LimitReached``.
    """

    def __init__(self, name: str, *, limit: float = limits.SIGNAL_SECONDS) -> None:
        self._name = name
        self._limit = limit
        self._gate = Gate()

    def __repr__(self) -> str:
        return f"<Signal {self._name} {'set' if self.is_set() else 'not set'}>"

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._gate.is_open()

    def set(self) -> None:
        """It has happened: wake everybody who waits."""
        self._gate.open()

    def wait(self, timeout: float) -> bool:
        """Block this thread until it has happened, for ``timeout`` seconds at most; whether it has."""
        return self._gate.wait(timeout)

    def __await__(self) -> Generator[Any, Any, None]:
        return self._passed().__await__()

    async def _passed(self) -> None:
        if not await self._gate.passed(self._limit):
            raise LimitReached(f"signal={self._name} not set within limit={self._limit:g} s")
