"""The processes below one: found while they are alive, and ended for good."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pytest_agentguard._core import limits
from pytest_agentguard._runner.system import contents
from pytest_agentguard._witnesses import clock

TOKEN = "AGENTGUARD_RUN"
_COMMAND = 200  # characters of a command line
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


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
    found = _children_listed(pid) if _lists_children() else _children_walked(pid)
    return [process for process in found if process is not None]


def children(pid: int) -> list[int]:
    """The direct children of ``pid``."""
    if _lists_children():
        return list(_listed(pid))
    import psutil

    return [process.pid for process in psutil.Process(pid).children()]


def whole(pid: int) -> list[Process]:
    """``pid`` itself, where it is alive, and every living descendant."""
    root = _described(pid) if _lists_children() else Process(pid, "")
    return ([root] if root is not None else []) + below(pid)


def token(run: str, supervisor: int) -> str:
    """What the environment of every process of a run says; no two supervisors have the same."""
    return f"{run}.{supervisor}"


def with_token(run: str) -> list[Process]:
    """Living processes whose environment says that they belong to ``run``, wherever their parent is now."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(TOKEN) == run:
                found.append(Process(process.pid, " ".join(process.cmdline())[:_COMMAND]))
    return found


def end_all(
    find: Callable[[], list[Process]],
    *,
    seconds: float = limits.PROCESS_GRACE_SECONDS,
    reaped: Callable[[int, int], object] = lambda pid, status: None,
) -> bool:
    """Kill whatever ``find`` gives until it gives nothing; False at the time limit.

    Own children that have ended are reaped; ``reaped`` gets the pid and the status of each.
    """
    deadline = clock.now() + seconds
    while living := find():
        if clock.now() > deadline:
            return False
        for process in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        _reap_into(reaped)
        clock.sleep(0.001)  # a killed process needs a moment to be gone
    _reap_into(reaped)
    return True


def stop(pid: int, *, seconds: float = 0.1) -> None:
    """Have a child of this process do nothing more, with its files and sockets still open."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    deadline = clock.now() + seconds
    seen = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_PID, pid, seen) is None and clock.now() < deadline:
            clock.sleep(0.001)


def reap() -> list[tuple[int, int]]:
    """Collect every child that has ended: its pid and its status."""
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        ended.append((pid, status))
    return ended


def _reap_into(reaped: Callable[[int, int], object]) -> None:
    for pid, status in reap():
        reaped(pid, status)


def _lists_children() -> bool:
    me = os.getpid()
    return os.path.exists(f"/proc/{me}/task/{me}/children")


def _children_listed(pid: int) -> Iterator[Process | None]:
    """Linux: the kernel lists the children of each thread, so only our own processes are looked at."""
    for child in _listed(pid):
        yield _described(child)
        yield from _children_listed(child)


def _listed(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        with contextlib.suppress(OSError):
            yield from map(int, contents(f"/proc/{pid}/task/{thread}/children").split())


def _described(pid: int) -> Process | None:
    try:
        state = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0]
        command = contents(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
    except OSError:
        return None
    if state in b"ZX":
        return None
    return Process(pid, command.decode("utf-8", "backslashreplace").strip()[:_COMMAND])


def _children_walked(pid: int) -> Iterator[Process | None]:
    import psutil

    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE:
                    yield Process(process.pid, " ".join(process.cmdline())[:_COMMAND])
