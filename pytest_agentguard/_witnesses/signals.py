"""Something that happens once and can be waited for from a thread, from asyncio and from trio."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import LimitReached


class Signal:
    """Set once, by any thread; ``await signal`` works under asyncio and trio, ``signal.wait(5)`` anywhere.

    An ``await`` that takes longer than ``limit`` seconds raises ``LimitReached``.
    """

    def __init__(self, name: str, *, limit: float = limits.SIGNAL_SECONDS) -> None:
        self._name = name
        self._limit = limit
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Signal {self._name} {'set' if self.is_set() else 'not set'}>"

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._event.is_set()

    def wait(self, timeout: float) -> bool:
        """Block this thread until it has happened, for ``timeout`` seconds at most; whether it has."""
        return self._event.wait(timeout)

    def set(self) -> None:
        """It has happened: wake everybody who waits."""
        with self._lock:
            self._event.set()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            try:
                wake()
            except Exception:  # the loop that waited is closed; nobody waits there any more
                continue

    def __await__(self) -> Generator[Any, Any, None]:
        return (self._in_trio() if _in_trio() else self._in_asyncio()).__await__()

    async def _in_asyncio(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        waker = self._register(lambda: loop.call_soon_threadsafe(woken.set))
        try:
            await asyncio.wait_for(woken.wait(), self._limit)
        except TimeoutError:
            raise self._late() from None
        finally:
            self._forget(waker)

    async def _in_trio(self) -> None:
        import trio

        token = trio.lowlevel.current_trio_token()
        woken = trio.Event()
        waker = self._register(lambda: token.run_sync_soon(woken.set))
        try:
            with trio.fail_after(self._limit):
                await woken.wait()
        except trio.TooSlowError:
            raise self._late() from None
        finally:
            self._forget(waker)

    def _register(self, wake: Callable[[], object]) -> Callable[[], object]:
        with self._lock:
            if not self._event.is_set():
                self._wakers.append(wake)
                return wake
        wake()
        return wake

    def _forget(self, wake: Callable[[], object]) -> None:
        with self._lock:
            if wake in self._wakers:
                self._wakers.remove(wake)

    def _late(self) -> LimitReached:
        return LimitReached(f"signal={self._name} not set within limit={self._limit:g} s")


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())
