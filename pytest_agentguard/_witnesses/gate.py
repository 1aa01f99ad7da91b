"""A gate that threads, asyncio tasks and trio tasks wait at, and that any thread may open."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any


class Gate:
    """Closed until ``open`` is called, then open for good. Every wait has a limit in seconds."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], Any]] = []

    def open(self) -> None:
        """Let everybody pass, from whatever thread."""
        with self._lock:
            self._event.set()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def is_open(self) -> bool:
        """Whether it has been opened."""
        return self._event.is_set()

    def wait(self, limit: float) -> bool:
        """Block this thread; False where the limit came first."""
        return self._event.wait(limit)

    async def passed(self, limit: float) -> bool:
        """Wait on the running asyncio or trio loop; False where the limit came first."""
        await (self._pass_trio(limit) if _in_trio() else self._pass_asyncio(limit))
        return self.is_open()

    async def _pass_asyncio(self, limit: float) -> None:
        import asyncio  # here, since most tests that use an endpoint have no loop

        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not reached.done():
                reached.set_result(None)

        timer = loop.call_later(limit, wake)
        try:
            if self._add(waker := _from_outside(lambda: loop.call_soon_threadsafe(wake))):
                await reached
        finally:
            timer.cancel()
            self._drop(waker)

    async def _pass_trio(self, limit: float) -> None:
        import trio

        token = trio.lowlevel.current_trio_token()
        reached = trio.Event()
        waker = _from_outside(lambda: token.run_sync_soon(reached.set))
        try:
            if self._add(waker):
                with trio.move_on_after(limit):
                    await reached.wait()
        finally:
            self._drop(waker)

    def _add(self, waker: Callable[[], Any]) -> bool:
        with self._lock:
            if not self._event.is_set():
                self._wakers.append(waker)
                return True
        return False

    def _drop(self, waker: Callable[[], Any]) -> None:
        with self._lock:
            if waker in self._wakers:
                self._wakers.remove(waker)


def _from_outside(wake: Callable[[], Any]) -> Callable[[], None]:
    """``wake``, harmless where its loop has ended in the meantime."""

    def waker() -> None:
        try:
            wake()
        except RuntimeError:  # asyncio: loop is closed; trio.RunFinishedError is one as well
            pass

    return waker


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    if trio is None:
        return False
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True
