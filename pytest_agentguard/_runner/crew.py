"""The supervisors of one warm parent: which run each of them has, and which of them wait for one."""

from __future__ import annotations

import _socket  # `socket.socketpair` goes by `socket.socket`, which the import of an agent may replace
import array
import contextlib
import math
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from pytest_agentguard._core import limits
from pytest_agentguard._runner.orders import RunOrder
from pytest_agentguard._runner.supervisor import WAITS
from pytest_agentguard._witnesses import clock

_Socket = socket.socket
_LINE = 32 * 1024  # bytes of an order that one send hands over; a longer one goes along with a fork
_AT_ONCE = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)  # an import may have reset SIGPIPE


@dataclass(slots=True)
class Run:
    """A run that goes on: its order, as the line that came as well; its host's channel; its deadline."""

    order: RunOrder
    line: bytes
    channel: socket.socket
    deadline: float


@dataclass(slots=True, eq=False)
class Member:
    """One supervisor: the warm parent's end of its link, and the run that it has, if any."""

    link: socket.socket
    run: Run | None
    deadline: float

    def listen(self) -> bool:
        """Take note of what it has said; False where it went away without having read its order."""
        try:
            if self.run is not None and self.link.recv(len(WAITS), socket.MSG_DONTWAIT):
                self.run.channel.close()
                self.run, self.deadline = None, math.inf
        except BlockingIOError:
            pass
        except OSError:  # the kernel says so where something unread was lost
            return False
        return True

    def hand(self, run: Run) -> bool:
        """Give it a run, as far as can be seen."""
        channel = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [run.channel.fileno()]))
        with contextlib.suppress(OSError):
            if self.link.sendmsg([run.line], [channel], _AT_ONCE) == len(run.line):
                self.run, self.deadline = run, run.deadline
                return True
        return False


class Crew:
    """All of them by pid. ``fork`` starts one with its first run and its end of a link, and gives its pid.

    What a supervisor says is heard when it matters, so that the warm parent need not wake for it.
    """

    def __init__(self, fork: Callable[[Run, socket.socket], int]) -> None:
        self.members: dict[int, Member] = {}
        self._fork = fork

    def assign(self, run: Run) -> None:
        """Have a supervisor that waits take the run, else a new one."""
        for member in self._waiting() if _can_be_handed(run) else ():
            if member.hand(run):
                return
            member.deadline = 0.0  # of no use any more
        self._enlist(run)

    def leave(self, pid: int) -> Run | None:
        """Forget a supervisor that has ended; the run that it has lost, if any."""
        member = self.members.pop(pid, None)
        if member is None:
            return None
        has_read = member.listen()
        member.link.close()
        if member.run is not None and not has_read:
            self.assign(member.run)
            return None
        return member.run

    def timeout(self) -> float | None:
        """Seconds until one of them is overdue; None where none has a deadline."""
        first = min((member.deadline for member in self.members.values()), default=math.inf)
        return None if first == math.inf else max(0.0, first - clock.now())

    def kill_overdue(self) -> None:
        """Kill each supervisor whose deadline has passed."""
        now = clock.now()
        for pid, member in self.members.items():
            if now >= member.deadline:
                member.listen()
            if now >= member.deadline:
                member.deadline = now + 1.0
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def dismiss(self) -> None:
        """Let those that wait end, and the others once they have no run any more."""
        until = clock.now() + limits.PROCESS_GRACE_SECONDS
        for member in self.members.values():
            member.listen()
            if member.run is None:
                member.deadline = until
            with contextlib.suppress(OSError):
                member.link.shutdown(socket.SHUT_WR)

    def forget(self) -> None:
        """Close everything, in a process that has none of them."""
        for member in self.members.values():
            member.link.close()
            if member.run is not None:
                member.run.channel.close()

    def _enlist(self, run: Run) -> None:
        ours, theirs = (_Socket(fileno=end.detach()) for end in _socket.socketpair())
        self.members[0] = member = Member(ours, None, run.deadline)  # without a pid yet, for `forget`
        with theirs:
            pid = self._fork(run, theirs)
        member.run = run
        self.members[pid] = self.members.pop(0)

    def _waiting(self) -> list[Member]:
        """The last that was started comes first: it is the most likely to be in the processor's caches."""
        for member in self.members.values():
            member.listen()
        return [member for member in self.members.values() if member.deadline == math.inf][::-1]


def _can_be_handed(run: Run) -> bool:
    """A process that has supervised other runs has memory to spare, so what its child adds is not exact."""
    return len(run.line) <= _LINE and not run.order.memory
