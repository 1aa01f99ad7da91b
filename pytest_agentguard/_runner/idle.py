"""Has something done on an event loop once everything on it waits.

What a loop has scheduled when a cancel comes still runs: an agent in a task of its own below the one that is
cancelled sends its request or starts its tool, and no agent can know better. A cancel that is to be judged
comes where nothing is about to run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pytest_agentguard._witnesses import clock

Deliver = Callable[[Callable[[], None]], object]
"""Has an action run where the agent runs and cannot go on meanwhile: on its loop, or in its main thread."""

_SECONDS = 1.0  # how long a loop may be busy without a break


def in_asyncio() -> tuple[Deliver, Deliver]:
    """For the running loop: once it waits, and as soon as possible."""
    loop = asyncio.get_running_loop()

    def deliver(now: Callable[[], None]) -> None:
        until = clock.now() + _SECONDS

        def look() -> None:
            if getattr(loop, "_ready", ()) and clock.now() < until:  # other loops do not say
                loop.call_soon(look)
            else:
                now()

        loop.call_soon_threadsafe(look)

    return deliver, loop.call_soon_threadsafe


def in_trio() -> tuple[Deliver, Deliver]:
    """The same for trio, from within."""
    import trio

    token = trio.lowlevel.current_trio_token()

    class Waiting(trio.abc.Instrument):
        """Sees the loop before it waits."""

        def __init__(self, now: Callable[[], None]) -> None:
            self._now = now
            self._until = clock.now() + _SECONDS

        def before_io_wait(self, timeout: float) -> None:
            if timeout > 0 or clock.now() >= self._until:
                trio.lowlevel.remove_instrument(self)
                self._now()
                token.run_sync_soon(_nothing)  # it has made up its mind how long to wait

    def deliver(now: Callable[[], None]) -> None:
        token.run_sync_soon(lambda: trio.lowlevel.add_instrument(Waiting(now)))

    return deliver, token.run_sync_soon


def _nothing() -> None:
    """Being called is all."""
