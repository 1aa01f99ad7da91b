"""What a cancelled run says that it has kept: asked so that whoever answers cannot hold up the end."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

_SECONDS = 1.0  # how long an answer may take
_LATE = object()
_Thread = threading.Thread  # taken now, since an agent may replace what is in a module


def kept(asked: Callable[[], Any], mine: set[threading.Thread], finish: Callable[[Any], Any]) -> str | None:
    """The text that ``asked`` gives in time, an awaitable finished by ``finish``; None for all else."""

    def ask() -> Any:
        value = asked()
        return finish(value) if inspect.isawaitable(value) else value

    return _text(_in_time(ask, mine))


async def akept(asked: Callable[[], Any], mine: set[threading.Thread], backend: str) -> str | None:
    """The same on a loop, where an awaitable is awaited."""
    value = _in_time(asked, mine)
    if not inspect.isawaitable(value):
        return _text(value)
    try:
        return _text(await (_soon_in_trio if backend == "trio" else _soon_in_asyncio)(value))
    except (Exception, asyncio.CancelledError):
        traceback.print_exc()
        return None


def _in_time(ask: Callable[[], Any], mine: set[threading.Thread]) -> Any:
    """What it gave in a thread of ours; None where it raised, ``_LATE`` where it took too long."""
    given: list[Any] = []

    def run() -> None:
        try:
            given.append(ask())
        except BaseException:  # it is asked of a run that is over, and says nothing of how it ended
            traceback.print_exc()
            given.append(None)

    thread = _Thread(target=run, name="agentguard-kept", daemon=True)
    mine.add(thread)
    thread.start()
    thread.join(_SECONDS)
    return given[0] if given else _LATE


async def _soon_in_asyncio(value: Any) -> Any:
    task = asyncio.ensure_future(value)
    done, _ = await asyncio.wait({task}, timeout=_SECONDS)
    if done:
        return task.result()
    task.cancel()
    return _LATE


async def _soon_in_trio(value: Any) -> Any:
    import trio

    with trio.move_on_after(_SECONDS):
        return await value
    return _LATE


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)
    why = f"took more than {_SECONDS} s" if value is _LATE else f"gave {type(value).__name__}, not str"
    print(f"agentguard: what the run has kept is not known: kept {why}", file=sys.stderr)
    return None
