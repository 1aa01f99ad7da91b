"""The process above one run at a time: keeps its deadline, drains its output, ends whatever it leaves."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import selectors
import signal
import socket
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NoReturn

from pytest_agentguard._core import limits
from pytest_agentguard._core.contracts import Adapter
from pytest_agentguard._core.events import Event, LeftBehind, ProcessOutput, WatchEnded, Witness
from pytest_agentguard._runner import child, outcome, system, tree
from pytest_agentguard._runner.guard import Guard
from pytest_agentguard._runner.orders import RunOrder, RunReceipt, as_json
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.journal_file import JournalFile
from pytest_agentguard._witnesses.origins import spawned

_PIECE = 64 * 1024
_LINE = 64 * 1024  # bytes of a note; whoever writes more is not our child's code
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_Socket = socket.socket  # taken now: the import of an agent may replace it
WAITS = b"\0"  # what a supervisor tells its warm parent once a further run may come


class Phase(Enum):
    """Where a run stands."""

    IMPORTING = auto()  # the agent is imported anew for this run
    RUNNING = auto()
    WATCHING = auto()  # every job has ended
    WATCHED = auto()  # the child has seen the window through
    GONE = auto()  # the child went away on its own
    EXPIRED = auto()  # a hard deadline passed
    ABORTED = auto()  # nobody waits for the run any more


_OVER = (Phase.WATCHED, Phase.GONE, Phase.EXPIRED, Phase.ABORTED)


class Output:
    """A pipe that is drained whatever comes, and kept up to a bound."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.total = 0
        self._kept = bytearray()

    def drain(self, pieces: int = 64) -> bool:
        """Take what is there, ``pieces`` reads at most; False at its end."""
        for _ in range(pieces):
            try:
                data = os.read(self.reader, _PIECE)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.total += len(data)
            self._kept += data[: limits.OUTPUT_BYTES - len(self._kept)]
        return True

    @property
    def text(self) -> str:
        """What was kept; bytes that are no UTF-8 as escapes."""
        return self._kept.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What the runs of one supervisor have in common; ``link`` leads to the warm parent.

    ``load`` gives the adapter: at once where the warm parent has imported it, else by an import, which may
    take ``import_seconds``.
    """

    link: socket.socket
    load: Callable[[], Adapter]
    guard: Guard
    import_seconds: float = 0.0
    collects: bool = field(default_factory=gc.isenabled)  # what the import of the agent has chosen


def supervise(post: Post, order: RunOrder, channel: socket.socket) -> None:
    """Supervise this run, and every further one that the link brings, for as long as they end cleanly."""
    gc.disable()  # a collection would copy pages for little: what a run needed is let go of without one
    given: tuple[RunOrder, socket.socket] | None = (order, channel)
    while given is not None:
        given = _next(post.link) if _supervised(post, *given) else None


def _supervised(post: Post, order: RunOrder, channel: socket.socket) -> bool:
    """One run; whether this process is as it was before."""
    with channel, contextlib.closing(Supervisor(post, order, channel)) as supervisor:
        waits = supervisor.run() and not post.import_seconds and _offer(post.link)
        supervisor.report()  # only now: whoever has the receipt and sends a further order finds us waiting
    return waits


def _offer(link: socket.socket) -> bool:
    try:
        return link.send(WAITS) > 0
    except OSError:  # the warm parent is gone
        return False


def _next(link: socket.socket) -> tuple[RunOrder, socket.socket] | None:
    """The next run, however long it takes to come; None where there will be none."""
    line, channels = bytearray(), []
    while not line.endswith(b"\n"):
        try:
            data, descriptors, _, _ = socket.recv_fds(link, _PIECE, 1, _CLOEXEC)
        except OSError:
            return None
        if not data:
            return None
        line += data
        channels += descriptors
    return RunOrder.from_json(bytes(line)), _Socket(fileno=channels[0])


class Supervisor:
    """One run, from the fork of its process to the last of what it left."""

    def __init__(self, post: Post, order: RunOrder, channel: socket.socket) -> None:
        self._post = post
        self._order = order
        self._channel = channel
        self._journal = JournalFile(order.journal)
        self._waiting = [job.lane for job in order.jobs]  # lanes whose end was not told yet
        self._stdout, self._stderr = Output(), Output()
        self._notes, self._notes_writer = os.pipe()
        self._note = bytearray()
        self._spawned: deque[tuple[str, str]] = deque(maxlen=limits.ORIGINS)  # command, who asked for it
        self._child = 0
        self._status: int | None = None
        self._began = self._watch_began = clock.now()
        self._watched = 0.0
        self._is_clean = True  # nothing has happened that a run does not do
        self._phase = Phase.IMPORTING if post.import_seconds else Phase.RUNNING
        self._deadline = self._began + (post.import_seconds or order.seconds)

    def run(self) -> bool:
        """Run it to its end; whether it was watched to its end and nothing of it had to be cleared away."""
        self._subreaper = system.become_subreaper()
        self._wakeup()
        self._child = os.fork()
        if self._child == 0:
            self._become_child()
        for writer in (self._stdout.writer, self._stderr.writer, self._notes_writer):
            os.close(writer)
        self._register()
        while self._phase not in _OVER:
            self._select(self._deadline)
            if self._phase not in _OVER and clock.now() >= self._deadline:
                self._phase = Phase.EXPIRED
        self._finish()
        return self._is_clean and self._phase is Phase.WATCHED

    def report(self) -> None:
        """Tell the host that it is over."""
        self._tell(receipt=self._receipt())

    def close(self) -> None:
        """Close whatever was opened for this run."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for descriptor in self._own_descriptors():
            os.close(descriptor)
        self._journal.close()

    def _own_descriptors(self) -> tuple[int, ...]:
        return self._woken, self._waker, self._notes, self._stdout.reader, self._stderr.reader

    # -- while it goes on --------------------------------------------------------------------------

    def _wakeup(self) -> None:
        """Have ``select`` return when a child ends."""
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)

    def _register(self) -> None:
        self._selector = selectors.DefaultSelector()
        for source, act in (
            (self._woken, self._reap),
            (self._notes, self._read_notes),
            (self._stdout.reader, lambda: self._drain(self._stdout)),
            (self._stderr.reader, lambda: self._drain(self._stderr)),
            (self._channel, self._hear),
        ):
            self._selector.register(source, selectors.EVENT_READ, act)

    def _select(self, until: float) -> None:
        for key, _ in self._selector.select(max(0.0, until - clock.now())):
            key.data()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, _PIECE)
        for pid, status in tree.reap():
            if pid == self._child:
                self._status = status
                self._read_notes()  # what it said before it went
                if self._phase not in _OVER:
                    self._phase = Phase.GONE

    def _read_notes(self) -> None:
        os.set_blocking(self._notes, False)
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._notes, _PIECE)
            if not data:
                self._forget(self._notes)
            self._note += data
        *lines, rest = self._note.split(b"\n")
        self._note = rest[-_LINE:]
        for line in lines:
            try:
                self._noted(*json.loads(line))
            except (ValueError, TypeError):  # of the agent, not of our child
                self._is_clean = False

    def _noted(self, what: str, lane: str) -> None:
        now = clock.now()
        match what:
            case "ready":
                self._phase = Phase.RUNNING
                self._began, self._deadline = now, now + self._order.seconds
            case "ended":
                self._tell_ended([lane])
                if not self._waiting and self._phase is Phase.RUNNING:
                    self._phase = Phase.WATCHING
                    self._watch_began = now
                    self._deadline = now + self._order.watch + limits.PROCESS_GRACE_SECONDS
            case "spawned":
                command, place = json.loads(lane)
                self._spawned.append((str(command), str(place)))
            case "watched" if self._phase not in _OVER:
                self._phase = Phase.WATCHED
            case _:
                self._is_clean = False

    def _drain(self, output: Output) -> None:
        if not output.drain():
            self._forget(output.reader)

    def _hear(self) -> None:
        """The host never speaks; when its end closes, nobody waits for this run any more."""
        with contextlib.suppress(OSError):
            if self._channel.recv(_PIECE):
                return
        self._forget(self._channel)
        self._phase = Phase.ABORTED

    def _forget(self, source: Any) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(source)

    # -- the end -----------------------------------------------------------------------------------

    def _finish(self) -> None:
        ended = self._how_it_ended()
        if ended is not None:
            self._is_clean = False
            self._tell_ended(outcome.end_missing_lanes(self._order, self._journal, ended))
            self._tell_ended(list(self._waiting))  # their end was in the journal, only the note was lost
        if self._phase in (Phase.WATCHED, Phase.GONE):
            self._look_at_survivors()
            self._watched = clock.now() - self._watch_began
        self._is_clean &= tree.end_all(self._survivors)
        for name, output in (("stdout", self._stdout), ("stderr", self._stderr)):
            output.drain()
            if output.total:
                self._record(ProcessOutput, stream=name, text=output.text, total=output.total)
        self._record(WatchEnded, seconds=round(self._watched, 3))

    def _how_it_ended(self) -> dict[str, Any] | None:
        """The end of the lanes that have not ended by themselves; None where all have."""
        now = clock.now()
        match self._phase:
            case Phase.GONE:
                self._watch_began = now if self._waiting else self._watch_began
                assert self._status is not None
                return outcome.of_status(self._status)
            case Phase.EXPIRED:
                if not self._waiting:
                    what = "the process did not reach the end of the observation window"
                    self._record(LeftBehind, kind="thread", what=what)
                tree.stop(self._child)  # killed only after its end is on record: a kill closes its sockets
                error = f"not ended after seconds={self._order.seconds:g}"
                return {"how": "killed", "error": error}
            case Phase.ABORTED:
                tree.stop(self._child)
                return {"how": "killed", "error": "nobody waits for this run any more"}
        return {"how": "killed", "error": "ended without an end"} if self._waiting else None

    def _look_at_survivors(self) -> None:
        """Processes that outlive the window and the grace period are left behind."""
        if self._phase is Phase.GONE:
            self._wait_for_others(self._watch_began + self._order.watch)
        others = self._wait_for_others(clock.now() + limits.PROCESS_GRACE_SECONDS)
        self._is_clean &= not others
        for process in others:
            if not process.is_helper:
                what = f"pid={process.pid} {process.command}"
                created = spawned(process.command, self._spawned)
                self._record(LeftBehind, kind="process", what=what, created=created)

    def _wait_for_others(self, until: float) -> list[tree.Process]:
        """Processes beside the child; while one of them is no helper, it is given until then to end."""
        while True:
            others = [process for process in self._survivors() if process.pid != self._child]
            is_over = self._phase is Phase.ABORTED or clock.now() >= until
            if is_over or all(process.is_helper for process in others):
                return others
            self._select(min(until, clock.now() + 0.02))

    def _survivors(self) -> list[tree.Process]:
        found = tree.below(os.getpid())
        if not self._subreaper:
            known = {process.pid for process in found}
            found += [
                p for p in tree.with_token(tree.token(self._order.id, os.getpid())) if p.pid not in known
            ]
        return found

    # -- what is told ------------------------------------------------------------------------------

    def _record(self, kind: type[Event], /, **fields: Any) -> None:
        self._journal.record(kind, witness=Witness.RUNNER, lane=self._order.own_lane, **fields)

    def _tell_ended(self, lanes: list[str]) -> None:
        for lane in lanes:
            if lane in self._waiting:
                self._waiting.remove(lane)
                self._tell(ended=lane)

    def _receipt(self) -> str:
        seconds = round(clock.now() - self._began, 3)
        return RunReceipt(stdout=self._stdout.text, stderr=self._stderr.text, seconds=seconds).to_json()

    def _tell(self, **message: str) -> None:
        with contextlib.suppress(OSError):
            self._channel.sendall(as_json(message).encode() + b"\n")

    # -- the child ---------------------------------------------------------------------------------

    def _become_child(self) -> NoReturn:
        supervisor = os.getppid()
        try:
            signal.set_wakeup_fd(-1)
            child.prepare(self._order, supervisor)
            os.dup2(self._stdout.writer, 1)
            os.dup2(self._stderr.writer, 2)
            faulthandler.enable(2)
            for descriptor in (*self._own_descriptors(), self._stdout.writer, self._stderr.writer):
                os.close(descriptor)
            self._channel.close()
            self._post.link.close()
            self._journal.close()
            notes = child.Notes(self._notes_writer)
            if self._post.collects:
                gc.enable()
            adapter = self._post.load()
            notes.send("ready")
            child.Child(self._order, adapter, notes, self._post.guard).run()
        except BaseException:
            traceback.print_exc()
        finally:
            system.flush()
            os._exit(70)


def _nothing(number: int, frame: object) -> None:
    """A handler must exist for the wake-up to be written."""
