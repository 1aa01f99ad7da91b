"""What the kernel offers to those who run other people's code; where it does not, nothing happens."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable

from pytest_agentguard._witnesses.processes import contents

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"


def _found_prctl() -> Callable[..., int] | None:
    """Looked up once: each process of a run calls it right after its fork."""
    try:
        return ctypes.CDLL(None).prctl if _LINUX else None
    except (OSError, AttributeError):
        return None


_call_prctl = _found_prctl()


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process; False where the kernel has no such thing."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """Have this process killed when its parent dies; False where the kernel has no such thing."""
    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def limit_memory(growth: int) -> None:
    """Let the private memory of this process grow by ``growth`` bytes at most, and leave no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    size = _status("VmData")
    if size:
        # data, not address space: runtimes that reserve much and touch little must still start
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (size + growth, hard))


def resident_bytes() -> int:
    """Resident memory of this process now; 0 where the system does not say."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most resident memory that this process has had since ``reset_peak``."""
    return _status("VmHWM") or _max_rss()


def reset_peak() -> bool:
    """Start measuring the peak anew; False where that is not permitted."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


def thread_count() -> int:
    """Threads of this process, native ones included where the system tells."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        import threading

        return threading.active_count()


def _prctl(option: int, value: int) -> bool:
    return _call_prctl is not None and _call_prctl(option, value, 0, 0, 0) == 0


def _status(name: str) -> int:
    try:
        _, found, rest = contents("/proc/self/status").partition(f"\n{name}:".encode())
    except OSError:
        return 0
    return int(rest.split(None, 1)[0]) * 1024 if found else 0


def _max_rss() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def flush() -> None:
    """Write out what waits in the standard streams, whatever the agent has put in their place."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (Exception, SystemExit):  # closed, None, or somebody else's object
            continue
