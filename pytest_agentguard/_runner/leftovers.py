"""What a run has left in its own process: tasks, threads and sockets that nobody ended."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any

Found = tuple[str, str, str]  # lane, kind, what
_POOLS = (  # files of thread pools, whose workers wait for work in a queue
    os.path.join("concurrent", "futures", "thread.py"),
    os.path.join("anyio", "_backends", "_asyncio.py"),
    os.path.join("trio", "_core", "_thread_cache.py"),
)
_WAITING = ("threading.py", "queue.py", *_POOLS)


class Before:
    """What was there when the run began; ``mine`` are the runner's own threads."""

    def __init__(self) -> None:
        self.threads = set(threading.enumerate())
        self.sockets = set(_sockets())
        self.mine: set[threading.Thread] = set()

    def left(self, lane: str) -> Iterator[Found]:
        """Threads and sockets that were not there before, as facts of ``lane``."""
        gc.collect()  # what only a reference cycle holds is as good as closed
        for thread in threading.enumerate():
            if thread not in self.threads and thread not in self.mine and is_leaked(thread):
                yield lane, "thread", thread.name
        for inode, descriptor in _sockets().items():
            if inode not in self.sockets and (what := open_socket(descriptor)):
                yield lane, "socket", what


def tasks_left(
    before: Collection[asyncio.Task[Any]], lane_of: Callable[[asyncio.Task[Any]], str]
) -> Iterator[Found]:
    """Tasks of the running loop that are not done and are not in ``before``."""
    for task in asyncio.all_tasks():
        if task not in before and not task.done():
            yield lane_of(task), "task", f"{task.get_name()}: {_coroutine_name(task)}"


def is_leaked(thread: threading.Thread) -> bool:
    """Whether it keeps a process from ending: alive, no daemon, and no pooled worker that waits for work."""
    if thread.daemon or not thread.is_alive() or thread.ident is None:
        return False
    files = [one.f_code.co_filename for one in _stack(sys._current_frames().get(thread.ident))]
    idle = any(file.endswith(_POOLS) for file in files) and all(file.endswith(_WAITING) for file in files)
    return not idle


def open_socket(descriptor: int) -> str:
    """In words, a socket that listens or has an answer that nobody read; empty for an idle or local one."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
        if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
            return ""
        if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return f"listening on {_address(copy.getsockname())}"
        peer = copy.getpeername()
        waiting = copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        # nothing to read or the peer's end of file: a pooled connection, which is no leak
        return f"connected to {_address(peer)} with unread data" if waiting else ""
    return ""


def _sockets() -> dict[int, int]:
    """The descriptor of every open socket by its inode."""
    found = {}
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError, ValueError):
            status = os.fstat(int(name))
            if status.st_mode & 0o170000 == 0o140000:
                found[status.st_ino] = int(name)
    return found


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _coroutine_name(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", None) or type(coroutine).__qualname__


def _address(address: Any) -> str:
    return f"{address[0]}:{address[1]}"
