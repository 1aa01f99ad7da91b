"""The processes of a run: whose they are, and their end for good."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from pytest_agentguard._core import limits
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.processes import COMMAND, described, lists_children
from pytest_agentguard._witnesses.processes import Process as Process
from pytest_agentguard._witnesses.processes import below as below
from pytest_agentguard._witnesses.processes import children as children

TOKEN = "AGENTGUARD_RUN"


def whole(pid: int) -> list[Process]:
    """``pid`` itself, where it is alive, and every living descendant."""
    root = described(pid) if lists_children() else Process(pid, "")
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
                found.append(Process(process.pid, " ".join(process.cmdline())[:COMMAND]))
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
