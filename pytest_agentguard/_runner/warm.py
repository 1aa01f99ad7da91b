"""The program of the warm parent: imports one agent, then has each run supervised in a process of its own.

``python -P -m pytest_agentguard._runner.warm SETTINGS``; it talks to its host over an inherited socket.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import NoReturn

from pytest_agentguard._core import limits
from pytest_agentguard._core.contracts import Adapter, is_async
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._runner import outcome, system, tree
from pytest_agentguard._runner.crew import Crew, Run
from pytest_agentguard._runner.guard import Guard
from pytest_agentguard._runner.load import hello
from pytest_agentguard._runner.orders import Hello, RunOrder, RunReceipt, as_json
from pytest_agentguard._runner.settings import Settings
from pytest_agentguard._runner.supervisor import Post, supervise
from pytest_agentguard._witnesses import clock

_Socket = socket.socket  # taken now: the import of an agent may replace it
_PIECE = 64 * 1024
_NOT_THE_AGENT = (os.path.dirname(__file__), "<frozen importlib", importlib.__file__)
_TRACEBACK = 8000  # characters of a traceback
_SETTLE_SECONDS = 0.2  # how long threads of the import may take to be gone
_MARGIN_SECONDS = 10.0  # how much longer than its order a supervisor may live


class Warm:
    """One agent, imported once, and the runs that were forked from it."""

    def __init__(self, settings: Settings, control: socket.socket, guard: Guard) -> None:
        self._settings = settings
        self._control = control
        self._guard = guard
        self._adapter: Adapter | None = None
        self._crew = Crew(self._fork)
        self._ended: list[tuple[int, int]] = []
        self._buffer = bytearray()
        self._channels: list[int] = []
        self._closing = False

    def serve(self) -> None:
        """Import, say hello, and fork for each order until the host closes its end."""
        if not self._settings.fresh:
            said = self._import()
            _outlive_input(self._control)
            self._control.sendall(b'{"hello":' + said.to_json().encode() + b"}\n")
            if said.fresh:
                self._start_anew()
        gc.collect()
        gc.freeze()
        system.become_subreaper()
        self._brought = {process.pid for process in tree.below(os.getpid())}
        self._woken = _wakeup()
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(self._control, selectors.EVENT_READ, self._receive)
            self._selector.register(self._woken, selectors.EVENT_READ, self._reap)
            while self._crew.members or not self._closing:
                for key, _ in self._selector.select(self._crew.timeout()):
                    key.data()
                self._crew.kill_overdue()
        tree.end_all(lambda: tree.below(os.getpid()))

    def _import(self) -> Hello:
        try:
            self._adapter = self._settings.load()
            _warm_up(self._adapter)
            said = hello(self._adapter, self._settings.spec)
        except UsageError as problem:  # a wrong spec, or a package that an adapter needs
            return Hello(error=str(problem), is_wrong_use=True)
        except BaseException:  # SystemExit while importing is an error like any other
            return Hello(error=_told()[-_TRACEBACK:])
        return dataclasses.replace(said, fresh=_threads_remain())

    def _start_anew(self) -> NoReturn:
        """Threads do not survive a fork: become a process without the agent, and import it in every run."""
        os.set_inheritable(self._control.fileno(), True)
        command = dataclasses.replace(self._settings, fresh=True).command()
        os.execv(command[0], command)

    # -- runs --------------------------------------------------------------------------------------

    def _receive(self) -> None:
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        data, descriptors, _, _ = socket.recv_fds(self._control, _PIECE, 16, flags)
        self._channels += descriptors
        self._buffer += data
        if not data:
            self._closing = True
            self._selector.unregister(self._control)
        while b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            self._begin(bytes(line) + b"\n", _Socket(fileno=self._channels.pop(0)))
        if self._closing:
            self._crew.dismiss()

    def _begin(self, line: bytes, channel: socket.socket) -> None:
        order = RunOrder.from_json(line)
        allowed = self._importing() + order.seconds + order.watch + 3 * limits.PROCESS_GRACE_SECONDS
        self._crew.assign(Run(order, line, channel, clock.now() + allowed + _MARGIN_SECONDS))

    def _importing(self) -> float:
        return self._settings.import_seconds if self._settings.fresh else 0.0

    def _fork(self, run: Run, link: socket.socket) -> int:
        """The pid of a further supervisor, which begins with this run and keeps nothing of the others."""
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                self._forget_everything()
                post = Post(link=link, load=self._ready, guard=self._guard, import_seconds=self._importing())
                supervise(post, run.order, run.channel)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                system.flush()
                os._exit(status)
        return pid

    def _ready(self) -> Adapter:
        return self._adapter or self._settings.load()

    def _forget_everything(self) -> None:
        os.close(signal.set_wakeup_fd(-1))
        self._selector.close()
        self._control.close()
        os.close(self._woken)
        self._crew.forget()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, _PIECE)
        self._ended += tree.reap()
        while self._ended:
            pid, status = self._ended.pop(0)
            run = self._crew.leave(pid)
            if run is None:
                continue
            if status != 0:
                self._clean_up_after(run, status)
            run.channel.close()

    def _clean_up_after(self, run: Run, status: int) -> None:
        """The supervisor was killed or broke down: what was below it is below us now."""
        tree.end_all(self._orphans, reaped=lambda pid, status: self._ended.append((pid, status)))
        ended = outcome.of_status(status)
        error = f"supervisor: {ended['error']}"
        with contextlib.suppress(OSError):
            outcome.end_lost_run(run.order, {**ended, "error": error})
            receipt = RunReceipt(error=error).to_json()
            run.channel.sendall(as_json({"receipt": receipt}).encode() + b"\n")

    def _orphans(self) -> list[tree.Process]:
        kept = self._brought | set(self._crew.members)
        mine = tree.children(os.getpid())
        return [orphan for pid in mine if pid not in kept for orphan in tree.whole(pid)]


def main(arguments: list[str]) -> None:
    """Run the program."""
    settings = Settings.from_json(arguments[1])
    control = _Socket(fileno=settings.control)
    os.set_inheritable(settings.control, False)
    sys.argv = [settings.spec]
    if not settings.fresh:
        _die_with_host(control)
    guard = Guard()
    guard.install()
    Warm(settings, control, guard).serve()


def _warm_up(adapter: Adapter) -> None:
    """Import here what a first loop would import in every run."""
    importlib.import_module(adapter.backend)
    anyio = sys.modules.get("anyio")  # of the agent, or of the client that it uses
    with contextlib.suppress(Exception):
        if anyio is not None and is_async(adapter.run):
            anyio.run(anyio.sleep, 0, backend=adapter.backend)
        elif anyio is not None:  # a loop that has run would be missed by `asyncio.get_event_loop`
            importlib.import_module(f"anyio._backends._{adapter.backend}")


def _told() -> str:
    """The traceback of the exception that is being handled, without the frames that led to the agent."""
    kind, problem, whole = sys.exc_info()
    own = whole
    while own is not None and own.tb_frame.f_code.co_filename.startswith(_NOT_THE_AGENT):
        own = own.tb_next
    if own is None and not isinstance(problem, SyntaxError):  # which names its place by itself
        own = whole
    return "".join(traceback.format_exception(kind, problem, own))


def _die_with_host(control: socket.socket) -> None:
    """While it imports, an end of file on the socket kills this process, whatever the import does."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) | os.O_ASYNC)
    with contextlib.suppress(BlockingIOError):
        if not control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            sys.exit("the host is gone")


def _outlive_input(control: socket.socket) -> None:
    """From here on what arrives is an order."""
    fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) & ~os.O_ASYNC)


def _wakeup() -> int:
    """A descriptor that becomes readable when a child ends."""
    woken, waker = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    return woken


def _threads_remain() -> bool:
    deadline = clock.now() + _SETTLE_SECONDS
    while system.thread_count() > 1:
        if clock.now() > deadline:
            return True
        clock.sleep(0.005)
    return False


if __name__ == "__main__":
    main(sys.argv)
