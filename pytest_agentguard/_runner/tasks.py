"""Tasks of the run's asyncio loop: on whose behalf each was created, and where."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pytest_agentguard._witnesses.places import Place, asker


class _Birth(NamedTuple):
    lane: str | None
    place: Place | None


class TaskBirths:
    """Knows the lane in the context that a task has, and, where we make the tasks, who asked for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lane: contextvars.ContextVar[str | None]) -> None:
        self._lane = lane
        self._births: dict[asyncio.Task[Any], _Birth] | None = None
        if not hasattr(asyncio.Task, "get_context"):  # Python 3.11
            self._births = {}
            loop.set_task_factory(self._create)

    def lane(self, task: asyncio.Task[Any]) -> str | None:
        """The lane of a task."""
        if self._births is not None:
            birth = self._births.get(task)
            return None if birth is None else birth.lane
        return task.get_context().get(self._lane)  # type: ignore[attr-defined,no-any-return]

    def place(self, task: asyncio.Task[Any]) -> Place | None:
        """Where it was created, as far as that is known."""
        birth = (self._births or {}).get(task)
        return None if birth is None else birth.place

    def _create(self, loop: asyncio.AbstractEventLoop, coro: Any, context: Any = None) -> asyncio.Task[Any]:
        births = self._births
        assert births is not None
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
        lane = self._lane.get() if context is None else context.get(self._lane)
        births[task] = _Birth(lane, asker(sys._getframe(1)))
        task.add_done_callback(lambda done: births.pop(done, None))
        return task


async def in_spite_of_cancels(wait: Callable[[], Awaitable[Any]]) -> None:
    """Wait to the end, although the agent may cancel every task that it finds."""
    while True:
        try:
            await wait()
        except asyncio.CancelledError:
            continue
        return


def finish(result: Any, backend: str) -> Any:
    """The value of an awaitable that a plain function returned, on a loop of this thread."""

    async def whole() -> Any:
        return await result

    if backend == "trio":
        import trio

        return trio.run(whole)
    return asyncio.run(whole())
