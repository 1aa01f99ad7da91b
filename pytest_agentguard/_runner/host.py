"""The runner's side in the pytest process: starts the warm parent of one agent and hands out runs."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import LimitReached, UsageError
from pytest_agentguard._runner import environment, outcome
from pytest_agentguard._runner.orders import Hello, RunOrder, RunReceipt
from pytest_agentguard._runner.settings import Settings
from pytest_agentguard._witnesses import clock

_PIECE = 64 * 1024
_LOG = 4000  # characters of what a warm parent wrote that an error shows
_MARGIN_SECONDS = 20.0  # how much longer than its order a run may take before its host gives it up
_GARBLED = (ValueError, TypeError, KeyError, AttributeError)
_CLOSE_SECONDS = 2 * limits.PROCESS_GRACE_SECONDS


class RunHandle:
    """A run that goes on."""

    def __init__(self, order: RunOrder, on_ended: Callable[[str], None], deadline: float) -> None:
        self.order = order
        self._on_ended = on_ended
        self._deadline = deadline
        self._waiting = [job.lane for job in order.jobs]
        self._receipt: RunReceipt | None = None
        self._done = threading.Event()
        self._errors: list[str] = []
        self._buffer = bytearray()
        self._channel: socket.socket | None = None

    def done(self) -> bool:
        """Whether the receipt is there."""
        return self._done.is_set()

    def wait(self) -> RunReceipt:
        """The receipt, once everything of the run is over."""
        if not self._done.wait(max(0.0, self._deadline - clock.now()) + _MARGIN_SECONDS):
            raise LimitReached(f"run {self.order.id} gave no receipt")
        assert self._receipt is not None
        return self._receipt

    # -- called by the reader thread ---------------------------------------------------------------

    def _ended(self, lanes: list[str]) -> None:
        for lane in lanes:
            if lane not in self._waiting:
                continue
            self._waiting.remove(lane)
            try:
                self._on_ended(lane)
            except Exception as error:  # it must not take other runs down
                self._errors.append(f"on_ended({lane!r}) raised {type(error).__qualname__}: {error}")

    def _finish(self, receipt: RunReceipt) -> None:
        self._ended(list(self._waiting))
        errors = [*([receipt.error] if receipt.error else []), *self._errors]
        self._receipt = RunReceipt(
            stdout=receipt.stdout, stderr=receipt.stderr, seconds=receipt.seconds, error="; ".join(errors)
        )
        if self._channel is not None:
            self._channel.close()
        self._done.set()

    def _lose(self, why: str) -> None:
        """Nobody is left to say how it ended, so it is said here."""
        with contextlib.suppress(OSError):
            outcome.end_lost_run(self.order, {"how": "exited", "error": why})
        self._finish(RunReceipt(error=why))


class AgentHost:
    """One agent: its warm parent, and every run that is forked from it.

    Runs may be started from any thread and overlap. Whatever the agent does, each run gets a receipt, and
    ``close`` ends everything within a few seconds.
    """

    def __init__(self, spec: str, *, root: Path, import_seconds: float = limits.IMPORT_SECONDS) -> None:
        if not Path(root).is_dir():
            raise UsageError(f"root {str(root)!r} is not a folder")
        self.spec = spec
        self._import_seconds = import_seconds
        self._import_deadline = clock.now() + import_seconds
        self._hello: Hello | None = None
        self._said = threading.Event()
        self._sending = threading.Lock()
        self._handing = threading.Lock()
        self._is_over = False  # the reader takes no more runs
        self._lost = ""  # why no further run can be started
        self._started: deque[RunHandle] = deque()
        self._buffer = bytearray()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in close
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = self._spawn(Path(root).absolute(), theirs.fileno())
        self._control.settimeout(_MARGIN_SECONDS)  # for sending; reading waits in the selector
        self._wakeup, self._waker = socket.socketpair()
        self._wakeup.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._closing = False
        self._reader = threading.Thread(target=self._read, name=f"agentguard host of {spec}", daemon=True)
        self._reader.start()

    def _spawn(self, root: Path, descriptor: int) -> subprocess.Popen[bytes]:
        settings = Settings(
            control=descriptor,
            spec=self.spec,
            root=str(root),
            path=tuple(entry for entry in sys.path if entry),
            import_seconds=self._import_seconds,
        )
        return subprocess.Popen(
            settings.command(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[descriptor],
            start_new_session=True,
            cwd=root,
            env=environment.clean(os.environ),
        )

    def hello(self) -> Hello:
        """What the agent offers, or why it could not be imported."""
        if not self._said.wait(self._import_seconds + _MARGIN_SECONDS):
            raise LimitReached(f"agent {self.spec!r} said nothing")
        assert self._hello is not None
        return self._hello

    def start(self, order: RunOrder, on_ended: Callable[[str], None]) -> RunHandle:
        """Begin a run. ``on_ended`` gets each lane, in the host's thread, once its end is in the journal."""
        hello = self.hello()
        allowed = order.seconds + order.watch + 3 * limits.PROCESS_GRACE_SECONDS + _MARGIN_SECONDS
        allowed += self._import_seconds if hello.fresh else 0.0
        run = RunHandle(order, on_ended, clock.now() + allowed)
        ours, theirs = socket.socketpair()
        run._channel = ours
        with theirs:
            sent = self._send(order, theirs.fileno())
        if not sent:
            ours.shutdown(socket.SHUT_RDWR)  # reads as a run whose supervisor is gone
        with self._handing:
            is_read = self._reader.is_alive() and not self._is_over
            if is_read:
                self._started.append(run)
        if is_read:
            self._wake()
        else:
            run._lose("the host is closed")
        return run

    def close(self) -> None:
        """End every run that goes on, then the warm parent."""
        if self._closing:
            return
        self._closing = True
        self._wake()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._wake()
        self._reader.join(_CLOSE_SECONDS)
        for opened in (self._selector, self._control, self._wakeup, self._waker, self._log):
            opened.close()

    def __enter__(self) -> AgentHost:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- sending -----------------------------------------------------------------------------------

    def _send(self, order: RunOrder, descriptor: int) -> bool:
        data = order.to_json().encode() + b"\n"
        with self._sending:
            if self._lost or self._closing:
                return False
            try:
                sent = socket.send_fds(self._control, [data], [descriptor])
                self._control.sendall(data[sent:])
            except OSError:
                return False
        return True

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    # -- the reader thread ---------------------------------------------------------------------------

    def _read(self) -> None:
        runs: set[RunHandle] = set()
        while not self._ends(runs):
            for key, _ in self._selector.select(self._timeout(runs)):
                if key.fileobj is self._control:
                    self._read_control()
                elif key.fileobj is self._wakeup:
                    self._take_started(runs)
                else:
                    self._read_channel(key.data, runs)
            self._expire(runs)

    def _ends(self, runs: set[RunHandle]) -> bool:
        with self._handing:
            self._is_over = self._closing and bool(self._lost) and not runs and not self._started
        return self._is_over

    def _timeout(self, runs: set[RunHandle]) -> float | None:
        deadlines = [run._deadline for run in runs]
        if self._hello is None:
            deadlines.append(self._import_deadline)
        return max(0.0, min(deadlines) - clock.now()) if deadlines else None

    def _take_started(self, runs: set[RunHandle]) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup.recv(_PIECE)
        while self._started:
            run = self._started.popleft()
            assert run._channel is not None
            self._selector.register(run._channel, selectors.EVENT_READ, run)
            runs.add(run)
        if self._closing:
            for run in runs:
                assert run._channel is not None
                with contextlib.suppress(OSError):
                    run._channel.shutdown(socket.SHUT_WR)

    def _read_control(self) -> None:
        data = _received(self._control)
        self._buffer += data
        while b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            self._say(self._heard(bytes(line)))
        if not data:
            self._selector.unregister(self._control)
            self._lost = self._lost or "the warm parent is gone"
            if self._hello is None:
                self._say(Hello(error=self._why_gone()))

    def _heard(self, line: bytes) -> Hello:
        """The hello; what is none was written by the agent, and nothing here can be relied on any more."""
        try:
            return Hello.from_json(json.dumps(json.loads(line)["hello"]))
        except _GARBLED:
            self._kill()
            return Hello(error=f"the import of {self.spec!r} wrote into the runner's socket: {line[:80]!r}")

    def _say(self, hello: Hello) -> None:
        if self._hello is None:
            self._hello = hello
            self._lost = self._lost or hello.error
            self._said.set()

    def _why_gone(self) -> str:
        code = self._process.wait()  # its end of the socket is closed, so it has ended or will at once
        how = f"signal {outcome.signal_name(-code)}" if code < 0 else f"exit status {code}"
        return f"{self._logged()}\nthe import of {self.spec!r} ended its process: {how}".lstrip()

    def _logged(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), _LOG, max(0, size - _LOG)).decode("utf-8", "backslashreplace")

    def _read_channel(self, run: RunHandle, runs: set[RunHandle]) -> None:
        assert run._channel is not None
        data = _received(run._channel)
        run._buffer += data
        while b"\n" in run._buffer:
            line, _, run._buffer = run._buffer.partition(b"\n")
            receipt = _told(run, bytes(line))
            if receipt is not None:
                self._forget(run, runs)
                run._finish(receipt)
                return
        if not data:
            self._forget(run, runs)
            run._lose(self._lost or "the supervisor of the run is gone")

    def _forget(self, run: RunHandle, runs: set[RunHandle]) -> None:
        assert run._channel is not None
        self._selector.unregister(run._channel)
        runs.discard(run)

    def _expire(self, runs: set[RunHandle]) -> None:
        now = clock.now()
        if self._hello is None and now >= self._import_deadline:
            self._kill()
            why = f"the import of {self.spec!r} took longer than import_seconds={self._import_seconds:g}"
            self._say(Hello(error=f"{self._logged()}\n{why}".lstrip()))
        for run in [run for run in runs if now >= run._deadline]:
            self._forget(run, runs)
            run._lose("the run gave no receipt in time")


def _told(run: RunHandle, line: bytes) -> RunReceipt | None:
    """Pass the end of a lane on, or give the receipt; what is neither was written by the agent."""
    try:
        message = json.loads(line)
        if "ended" in message:
            run._ended([message["ended"]])
            return None
        return RunReceipt.from_json(message["receipt"])
    except _GARBLED:
        return RunReceipt(error=f"the agent wrote into the runner's socket: {line[:80]!r}")


def _received(channel: socket.socket) -> bytes:
    """What is there; nothing where the peer has closed or was lost."""
    try:
        return channel.recv(_PIECE)
    except OSError:
        return b""
