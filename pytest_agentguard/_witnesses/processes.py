"""The processes below one, found while they are alive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

COMMAND = 200  # characters of a command line
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_PIECE = 64 * 1024
_open, _read, _close = os.open, os.read, os.close  # taken now: an agent may replace what is in `os`


@dataclass(frozen=True, slots=True)
class Process:
    """One living process."""

    pid: int
    command: str

    @property
    def is_helper(self) -> bool:
        """Whether the standard library keeps it for as long as its parent lives."""
        return any(name in self.command for name in _HELPERS)


def below(pid: int) -> list[Process]:
    """Every living descendant of ``pid``, parents first; zombies are dead."""
    found = _children_listed(pid) if lists_children() else _children_walked(pid)
    return [process for process in found if process is not None]


def children(pid: int) -> list[int]:
    """The direct children of ``pid``."""
    if lists_children():
        return list(_listed(pid))
    import psutil

    return [process.pid for process in psutil.Process(pid).children()]


def have_children() -> bool:
    """Whether this process has any child, also one that has ended; that is asked of the kernel at once."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def described(pid: int) -> Process | None:
    """A living process; None for one that has ended."""
    try:
        state = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0]
        command = contents(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
    except OSError:
        return None
    if state in b"ZX":
        return None
    return Process(pid, command.decode("utf-8", "backslashreplace").strip()[:COMMAND])


def lists_children() -> bool:
    """Whether the kernel lists the children of a process, so that only our own are looked at."""
    me = os.getpid()
    return os.path.exists(f"/proc/{me}/task/{me}/children")


def contents(path: str) -> bytes:
    """All of a small file that the kernel makes up, read without what `open` sets up. Raises ``OSError``."""
    descriptor = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := _read(descriptor, _PIECE):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        _close(descriptor)


def _children_listed(pid: int) -> Iterator[Process | None]:
    for child in _listed(pid):
        yield described(child)
        yield from _children_listed(child)


def _listed(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        with contextlib.suppress(OSError):
            yield from map(int, contents(f"/proc/{pid}/task/{thread}/children").split())


def _children_walked(pid: int) -> Iterator[Process | None]:
    import psutil

    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE:
                    yield Process(process.pid, " ".join(process.cmdline())[:COMMAND])
