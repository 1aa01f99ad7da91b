"""Agents that do their worst. What one of them does is the prompt of its job."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from pytest_agentguard import Adapter, Limits, RunEnd

LONG = 60.0


def run(job: Any) -> Any:
    """Do what the prompt says; whatever is not named here is answered."""
    act = _ACTS.get(job.prompt)
    return act(job) if act is not None else f"answer to {job.prompt}"


async def arun(job: Any) -> Any:
    """The same on a loop, with what only a loop can suffer."""
    match job.prompt:
        case "hang":
            await asyncio.sleep(LONG)
        case "leave a task":
            forget = asyncio.get_running_loop().create_task(asyncio.sleep(LONG), name="forgotten")
            assert not forget.done()
        case "leave a poller":
            asyncio.get_running_loop().create_task(_poll())
        case "leave a stream that nobody holds":
            stream = _stream()
            await anext(stream)
            stream = [stream]  # type: ignore[assignment]
            stream.append(stream)  # type: ignore[attr-defined]
        case "leave a task that is soon done":
            asyncio.get_running_loop().create_task(asyncio.sleep(0))
        case "cancel every task":
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(0)
        case "exit in a task":
            task = asyncio.get_running_loop().create_task(_exit())
            await task
        case "use a worker thread":
            await asyncio.to_thread(os.getpid)
        case "block the loop later":
            asyncio.get_running_loop().call_later(0.01, time.sleep, LONG)
        case _:
            return run(job)
    return "done"


async def trio_run(job: Any) -> Any:
    """The same on trio."""
    import trio

    if job.prompt == "hang":
        await trio.sleep(LONG)
    if job.prompt == "cancel":
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.sleep(LONG)
        raise RuntimeError("not reached in time")
    if job.prompt == "leave a system task":
        trio.lowlevel.spawn_system_task(trio.sleep_forever, name="forgotten")
    await trio.lowlevel.checkpoint()
    return run(job)


async def _poll() -> None:
    await asyncio.sleep(LONG)


async def _stream() -> Any:
    """Closes its file once the loop has had a moment for it."""
    path = os.path.join(tempfile.gettempdir(), "streamed")
    with open(path, "w") as file:
        try:
            yield file
        finally:
            await asyncio.sleep(0)


async def _exit() -> None:
    sys.exit(4)


def _hang(job: Any) -> None:
    time.sleep(LONG)


def _eat(job: Any) -> None:
    eaten = []
    while len(eaten) < 4:
        eaten.append(bytes(1024 * 1024 * 1024))


def _eat_a_little(job: Any) -> str:
    return str(len(b"x" * (48 * 1024 * 1024)))


def _leave_a_child(job: Any) -> str:
    subprocess.Popen([sys.executable, "-S", "-E", "-c", f"import time; time.sleep({LONG})"])
    return "left"


def _leave_a_daemon(job: Any) -> str:
    """Fork twice with a session of its own, so that nobody above is its parent any more."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(LONG)
        os._exit(0)
    os.wait()
    return "left"


def _exit_above_a_daemon(job: Any) -> None:
    _leave_a_daemon(job)
    os._exit(0)


def _print(job: Any) -> str:
    sys.stdout.write("x" * 1_000_000)
    os.write(2, b"\xff\xfe[]{\n")
    return "printed"


def _write_everywhere(job: Any) -> str:
    for descriptor in range(3, 256):
        try:
            os.write(descriptor, b'{"receipt": 1}\n[1, 2]\n5\n["ended", {}]\ngarbage\n')
        except OSError:
            continue
    return "written"


def _close_everything(job: Any) -> str:
    os.closerange(0, 4096)
    return "closed"


def _close_everything_and_reopen(job: Any) -> str:
    os.closerange(0, 4096)
    with open(os.path.join(job.workdir, "mine"), "w") as mine:
        job.tools[0].run(x="1")
        assert mine.fileno() < 3
    return "closed"


class _Broken(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class _Kind(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class _BrokenKind(Exception, metaclass=_Kind):
    pass


class _BrokenGroup(ExceptionGroup[ValueError]):
    @property
    def exceptions(self) -> Any:
        raise RuntimeError("no members")


def _replace(module: Any, *names: str) -> Callable[[Any], str]:
    """Replace functions by ones that raise, then use a tool."""

    def wrong(*args: Any, **kwargs: Any) -> None:
        raise OSError("replaced")

    def act(job: Any) -> str:
        for name in names:
            setattr(module, name, wrong)
        return str(job.tools[0].run(x="1"))

    return act


def _freeze_time(job: Any) -> str:
    time.monotonic = time.time = lambda: 0.0
    time.sleep = lambda seconds: None
    return "frozen"


def _write_facts(job: Any) -> str:
    """Lines in the journal that are no facts, the last one without its end."""
    for kind in ("ToolStarted", "RunEnded", "StreamEnded"):
        for fields in ({"tool": 5}, {"arguments": "x"}, {"code": "x"}, {"begun": "x"}, {"wings": 2}):
            line = json.dumps([1.0, kind, {"witness": "runner", **fields}])
            for descriptor in range(3, 256):
                with contextlib.suppress(OSError):
                    os.write(descriptor, line.encode() + b"\n" + line[:20].encode())
    return str(job.tools[0].run(x="1"))


def _raise(error: BaseException) -> Callable[[Any], None]:
    def act(job: Any) -> None:
        raise error

    return act


def _raise_a_group(job: Any) -> None:
    try:
        raise ConnectionResetError("reset")
    except ConnectionResetError as error:
        raise ExceptionGroup("several", [ValueError("leaf"), TypeError("other")]) from error


def _raise_with_a_cause(job: Any) -> None:
    try:
        raise ConnectionResetError("reset")
    except ConnectionResetError as error:
        raise RuntimeError("gave up") from error


def _leave_a_thread(job: Any) -> str:
    threading.Thread(target=time.sleep, args=(LONG,), name="forgotten").start()
    return "left"


def _leave_a_daemon_thread(job: Any) -> str:
    threading.Thread(target=time.sleep, args=(LONG,), daemon=True).start()
    return "left"


def _leave_files(job: Any) -> str:
    """A temporary folder, an open file, what a program has left, and what is kept on purpose."""
    global _kept
    folder = tempfile.mkdtemp(prefix="scratch-")
    log, kept = io.FileIO(os.path.join(job.workdir, "agent.log"), "a"), tempfile.TemporaryDirectory()
    _kept = (io.FileIO(os.path.join(job.workdir, "report"), "w"), log, kept)
    subprocess.run(["/bin/sh", "-c", ": > ${TMPDIR}/tmp.of-a-program; mkdir $TMPDIR/cache"], check=True)
    return folder


def _leave_a_pool(job: Any) -> str:
    from concurrent.futures import ThreadPoolExecutor

    global _pool
    _pool = ThreadPoolExecutor(2)
    return str(_pool.submit(len, "four").result())


def _listen(job: Any) -> str:
    global _kept
    _kept = socket.create_server(("127.0.0.1", 0))
    return "listening"


def _connect_elsewhere(job: Any) -> str:
    try:
        socket.create_connection(("203.0.113.7", 443), timeout=1)
    except OSError as error:
        return type(error).__name__
    return "connected"


def _look_up(job: Any) -> str:
    try:
        socket.getaddrinfo("api.example.com", 443)
    except OSError as error:
        return type(error).__name__
    return "found"


def _environment(job: Any) -> str:
    names = ("NO_PROXY", "HTTPS_PROXY", "OPENAI_API_KEY", "MY_SECRET", "PYTEST_CURRENT_TEST", "GIVEN")
    return repr([os.environ.get(name) for name in names])


_ACTS: dict[str, Callable[[Any], Any]] = {
    "hang": _hang,
    "exit": lambda job: os._exit(0),
    "segfault": lambda job: ctypes.string_at(0),
    "kill itself": lambda job: os.kill(os.getpid(), signal.SIGKILL),
    "kill its group": lambda job: os.killpg(0, signal.SIGKILL),
    "kill its parent": lambda job: (os.kill(os.getppid(), signal.SIGKILL), time.sleep(LONG)),
    "leave a daemon and kill its parent": lambda job: (
        _leave_a_daemon(job),
        os.kill(os.getppid(), signal.SIGKILL),
        time.sleep(LONG),
    ),
    "stop itself": lambda job: os.kill(os.getpid(), signal.SIGSTOP),
    "ignore signals and hang": lambda job: (
        [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT)],
        time.sleep(LONG),
    ),
    "eat 4 GiB": _eat,
    "eat 48 MiB": _eat_a_little,
    "leave a child": _leave_a_child,
    "leave a daemon": _leave_a_daemon,
    "exit above a daemon": _exit_above_a_daemon,
    "print": _print,
    "write everywhere": _write_everywhere,
    "write facts": _write_facts,
    "replace os": _replace(os, "open", "write", "fstat"),
    "replace json": _replace(json, "dumps"),
    "freeze time": _freeze_time,
    "freeze time and hang": lambda job: (_freeze_time(job), threading.Event().wait()),
    "close everything": _close_everything,
    "close everything and hang": lambda job: (_close_everything(job), time.sleep(LONG)),
    "close everything and exit": lambda job: (_close_everything(job), os._exit(3)),
    "close everything and reopen": _close_everything_and_reopen,
    "return 5": lambda job: 5,
    "return None": lambda job: None,
    "return limited": lambda job: RunEnd(how="limited", answer="so far", error="rounds"),
    "return nonsense": lambda job: RunEnd(how="sideways"),
    "raise": _raise(ValueError("wrong")),
    "raise BaseException": _raise(BaseException("base")),
    "raise KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "raise SystemExit": _raise(SystemExit(3)),
    "raise CancelledError": _raise(asyncio.CancelledError()),
    "raise without a text": _raise(_Broken()),
    "raise without a name": _raise(_BrokenKind("odd")),
    "raise a broken group": _raise(_BrokenGroup("several", [ValueError("leaf")])),
    "raise a group": _raise_a_group,
    "raise with a cause": _raise_with_a_cause,
    "leave a thread": _leave_a_thread,
    "leave a daemon thread": _leave_a_daemon_thread,
    "leave a pool": _leave_a_pool,
    "leave files": _leave_files,
    "listen": _listen,
    "where are temporary files": lambda job: f"{tempfile.gettempdir()} {os.environ['TMPDIR']}",
    "connect elsewhere": _connect_elsewhere,
    "look up": _look_up,
    "connect and hang": lambda job: (
        socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))),
        time.sleep(LONG),
    ),
    "environment": _environment,
    "use a tool": lambda job: job.tools[0].run(x="1"),
    "who is above": lambda job: str(os.getppid()),
    "which descriptors": lambda job: str(sorted(map(int, os.listdir("/dev/fd")))),
    "garble the notes": lambda job: (_write_everywhere(job), str(os.getppid()))[1],
    "leave a child and say who is above": lambda job: (_leave_a_child(job), str(os.getppid()))[1],
    "does it collect": lambda job: str(gc.isenabled()),
    "where": lambda job: f"{os.getcwd()} {job.workdir}",
    "read stdin": lambda job: repr(sys.stdin.read()),
}

on_trio = Adapter(name="on-trio", run=trio_run, backend="trio")
declared = Adapter(name="declared", run=run, declared=Limits(attempts=3, rounds=7), distributions=("pytest",))
prepared: list[int] = []
with_service = Adapter(
    name="with-service",
    run=lambda job: f"prepared={len(prepared)} here={os.getpid() in prepared} {os.environ.get('SERVICE')}",
    prepare=lambda: prepared.append(os.getpid()),
    start=lambda: os.environ.update(SERVICE="up"),
    stop=lambda: print("stopped"),
)
broken_service = Adapter(name="broken-service", run=run, start=lambda: 1 / 0)
number = 5
