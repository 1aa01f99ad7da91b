"""The supervisor: a stop is put on record, work is cancelled and cleaned up, and nothing starts after it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import anyio

from pytest_agentguard.reference.errors import DeadlineReached, RunCancelled, RunStopped

T = TypeVar("T")

DEADLINE, CANCEL = "deadline", "cancel"


class Supervisor:
    """Says whether work may start, until its deadline or a stop; for workers on one loop or in many threads.

    The deadline counts from the moment at which the supervisor is made.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.ends = math.inf if deadline is None else time.monotonic() + deadline
        self.why = ""  # empty until there is a stop
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self, why: str) -> None:
        """Put the stop on record; the first reason stays. Called from any thread."""
        with self._lock:
            self.why = self.why or why
        self._stopped.set()

    def left(self) -> float:
        """Seconds until the deadline, 0 after it."""
        return max(0.0, self.ends - time.monotonic())

    def permit(self) -> None:
        """Guard: after a stop, or the deadline, nothing starts."""
        if not self.why and not self.left():
            self.stop(DEADLINE)
        if self.why:
            raise RunStopped(f"nothing is started after a stop: stop={self.why}")

    # -- work that is under way -------------------------------------------------------------------------

    async def run(self, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """``work`` in a task of its own: it can swallow a cancel of that, and not of its caller.

        A cancel of the caller is a stop. Whichever way the work ends, its clean-up is awaited.
        """
        self.permit()
        outcome: _Outcome[T] = _Outcome()
        with anyio.move_on_after(self.left()) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(outcome.settle, work, arguments)
                await self.settled(outcome, scope)
        if scope.cancel_called:  # also where the work swallowed the cancel
            raise self.too_late()
        return outcome.value()

    async def settled(self, outcome: _Outcome[T], scope: anyio.CancelScope) -> None:
        """Guard: a stop is on record before the work hears of it."""
        try:
            await outcome.settled.wait()
        except anyio.get_cancelled_exc_class():
            self.stop(DEADLINE if scope.cancel_called else CANCEL)
            raise

    def too_late(self) -> DeadlineReached:
        """The error for work that the deadline has ended."""
        self.stop(DEADLINE)
        return DeadlineReached(f"the run took too long: deadline={self.deadline} s")

    # -- threads -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Guard: what nobody can interrupt looks by itself, before each wait and after it."""
        if self.why == CANCEL:
            raise RunCancelled("the run was cancelled")
        if not self.left():
            raise self.too_late()
        self.permit()

    def sleep(self, seconds: float) -> None:
        """A pause in a thread, which a stop ends."""
        self._stopped.wait(min(seconds, self.left()))
        self.look()


class _Outcome(Generic[T]):
    """What came of work: a value or an error."""

    def __init__(self) -> None:
        self.settled = anyio.Event()
        self._values: list[T] = []
        self._error: Exception | None = None

    async def settle(self, work: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> None:
        try:
            self._values.append(await work(*arguments))
        except Exception as error:
            self._error = error
        finally:
            self.settled.set()

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return self._values[0]
