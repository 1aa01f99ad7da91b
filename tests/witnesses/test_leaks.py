"""What is left in a process is found with where it was made; what only looks like a leak is not."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import mmap
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import trio

from pytest_agentguard._witnesses.leaks import Left, Snapshot, task_left, trio_tasks
from pytest_agentguard._witnesses.origins import Origins, spawned

HERE = os.path.relpath(__file__)
SLEEP = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"]

Keep = Callable[[Any], Any]


@pytest.fixture(scope="module")
def origins() -> Origins:
    """One for all: a hook cannot be taken out again."""
    return Origins()


@pytest.fixture
def before(origins: Origins) -> Iterator[Snapshot]:
    taken = Snapshot(origins)
    yield taken
    origins.end()


@pytest.fixture
def keep() -> Iterator[Keep]:
    """Closes in the end what a test leaves on purpose."""
    with contextlib.ExitStack() as stack:

        def kept(one: Any) -> Any:
            stack.callback(one.close)
            return one

        yield kept


def at(function: str, created: str) -> bool:
    """Whether ``created`` is a line of that function in this file."""
    place, _, name = created.partition(" in ")
    return place.rpartition(":")[0] == HERE and name == function


# -- sockets ------------------------------------------------------------------------------------------


def test_a_listener_is_left(before: Snapshot, keep: Keep) -> None:
    server = keep(socket.create_server(("127.0.0.1", 0)))

    (left,) = before.left()
    assert (left.kind, left.what) == ("listener", f"listening on 127.0.0.1:{server.getsockname()[1]}")
    assert at("test_a_listener_is_left", left.created)


def test_a_listener_on_a_path_is_left(before: Snapshot, keep: Keep, tmp_path: Path) -> None:
    server = keep(socket.socket(socket.AF_UNIX))
    server.bind(os.path.relpath(tmp_path / "s"))
    server.listen()

    (left,) = before.left()
    assert (left.kind, left.what) == ("listener", f"listening on {os.path.relpath(tmp_path / 's')}")


def test_an_answer_that_nobody_has_read_is_left(origins: Origins, keep: Keep) -> None:
    server = keep(socket.create_server(("127.0.0.1", 0)))
    before = Snapshot(origins)
    client = keep(socket.create_connection(server.getsockname()))
    accepted = keep(server.accept()[0])

    assert before.left() == []
    accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    (left,) = before.left()
    assert left.kind == "socket"
    assert left.what == f"connected to 127.0.0.1:{server.getsockname()[1]} with unread data"
    assert at("test_an_answer_that_nobody_has_read_is_left", left.created)
    client.recv(100)
    assert before.left() == []


def test_a_connection_that_its_peer_has_closed_is_that_of_a_pool(origins: Origins, keep: Keep) -> None:
    server = keep(socket.create_server(("127.0.0.1", 0)))
    before = Snapshot(origins)
    keep(socket.create_connection(server.getsockname()))
    server.accept()[0].close()

    assert before.left() == []


def test_sockets_at_the_ports_of_a_witness_are_its_own(before: Snapshot, keep: Keep) -> None:
    server = keep(socket.create_server(("127.0.0.1", 0)))
    client = keep(socket.create_connection(server.getsockname()))
    keep(server.accept()[0])
    client.sendall(b"GET")

    assert before.left(ports={server.getsockname()[1]}) == []


def test_an_idle_connection_of_a_pool_is_no_leak(counting_server: Any, before: Snapshot, keep: Keep) -> None:
    counting_server.route("/x")
    client = keep(httpx.Client(trust_env=False, verify=False))
    client.get(f"{counting_server.root_url}/x")

    assert before.left() == []


# -- files and pipes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "way"), [("w", "writing"), ("r", "reading"), ("r+", "both")])
def test_an_open_file_is_left(before: Snapshot, keep: Keep, tmp_path: Path, mode: str, way: str) -> None:
    path = tmp_path / "report"
    path.write_bytes(b"")
    keep(io.FileIO(path, mode))

    (left,) = before.left()
    assert (left.kind, left.what) == ("file", f"{path} open for {way}")
    assert at("test_an_open_file_is_left", left.created)


def test_a_descriptor_without_an_object_is_left(before: Snapshot, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "raw", os.O_CREAT | os.O_RDWR)
    found = before.left()
    os.close(descriptor)

    assert [left.what for left in found] == [f"{tmp_path / 'raw'} open for both"]


def test_an_open_file_that_was_deleted_is_left(before: Snapshot, keep: Keep, tmp_path: Path) -> None:
    keep(io.FileIO(tmp_path / "gone", "w"))
    (tmp_path / "gone").unlink()

    assert [left.what for left in before.left()] == [f"{tmp_path / 'gone'} open for writing"]


def test_a_pipe_whose_other_end_is_closed_is_left(before: Snapshot) -> None:
    reader, writer = os.pipe()
    assert before.left() == []
    os.close(writer)
    found = before.left()
    os.close(reader)

    assert found == [Left("file", "pipe whose write end is closed")]


def test_output_of_a_process_that_is_gone_is_left(before: Snapshot) -> None:
    with subprocess.Popen([sys.executable, "-S", "-E", "-c", ""], stdout=subprocess.PIPE) as process:
        process.wait(20)
        assert [left.kind for left in before.left()] == ["file"]
    assert before.left() == []


def _log_appended(folder: Path) -> Any:
    return io.FileIO(folder / "agent.log", "a")


def _log_handler(folder: Path) -> Any:
    handler = logging.FileHandler(folder / "agent.log", mode="w")
    logging.getLogger("tests.leaks").handlers[:] = [handler]
    return handler


def _map(folder: Path) -> Any:
    (folder / "weights").write_bytes(b"x" * 8192)
    with open(folder / "weights", "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def _database(folder: Path) -> Any:
    database = sqlite3.connect(folder / "state.db")
    database.execute("create table t(x)")
    return database


def _pair(folder: Path) -> Any:
    one, other = socket.socketpair()
    one.sendall(b"x")
    return _Several(one, other)


class _Several:
    def __init__(self, *things: Any) -> None:
        self._things = things

    def close(self) -> None:
        for thing in self._things:
            thing.close()


def _own_pipe(folder: Path) -> Any:
    reader, writer = os.pipe()
    return _Several(os.fdopen(reader, "rb"), os.fdopen(writer, "wb"))


def _datagrams(folder: Path) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _loop(folder: Path) -> Any:
    return asyncio.new_event_loop()


def _unlinked(folder: Path) -> Any:
    return tempfile.TemporaryFile()


def _of_the_interpreter(folder: Path) -> Any:
    return io.FileIO(os.path.join(sys.base_prefix, "bin", "python3"))


LOOK_ALIKES = (
    _log_appended,
    _log_handler,
    _map,
    _database,
    _pair,
    _own_pipe,
    _datagrams,
    _loop,
    _unlinked,
    _of_the_interpreter,
    lambda folder: io.FileIO(os.devnull, "r+"),
    lambda folder: io.FileIO("/dev/urandom"),
)


@pytest.mark.parametrize("make", LOOK_ALIKES)
def test_what_is_kept_open_on_purpose_is_no_leak(
    before: Snapshot, keep: Keep, tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    keep(make(tmp_path))

    assert before.left() == []


def test_what_was_open_before_is_no_leak(origins: Origins, keep: Keep, tmp_path: Path) -> None:
    keep(io.FileIO(tmp_path / "early", "w"))

    assert Snapshot(origins).left() == []


# -- threads ------------------------------------------------------------------------------------------


def _wait(end: threading.Event) -> None:
    end.wait(20)


@pytest.fixture
def end() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_thread_is_left_with_what_it_runs(before: Snapshot, end: threading.Event) -> None:
    threading.Thread(target=_wait, args=(end,), name="forgotten").start()

    (left,) = before.left()
    assert (left.kind, left.what) == ("thread", "forgotten")
    # from Python 3.12 on the interpreter tells of threads that start
    asked = "_wait" if sys.version_info < (3, 12) else "test_a_thread_is_left_with_what_it_runs"
    assert at(asked, left.created)


def test_daemons_and_idle_workers_are_no_leak(before: Snapshot, end: threading.Event) -> None:
    threading.Thread(target=_wait, args=(end,), daemon=True).start()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(len, "four").result(20)
        assert before.left_in_time() == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_workers_of_loops_are_no_leak(before: Snapshot, backend: str) -> None:
    async def look() -> list[Left]:
        await anyio.to_thread.run_sync(len, "four")
        with anyio.move_on_after(10):
            while before.left():  # it may not have come back to its queue yet
                await anyio.sleep(0)
        return before.left()

    assert anyio.run(look, backend=backend) == []


# -- temporary files ----------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_temporary_files_are_left(before: Snapshot, temporary: Path) -> None:
    folder = tempfile.mkdtemp(prefix="work-")
    descriptor, file = tempfile.mkstemp()
    os.close(descriptor)

    found = before.left()
    assert [(left.kind, left.what) for left in found] == [
        ("temporary", os.path.basename(folder)),
        ("temporary", os.path.basename(file)),
    ]
    assert all(at("test_temporary_files_are_left", left.created) for left in found)
    os.unlink(file)
    os.rmdir(folder)
    assert before.left() == []


def test_a_temporary_folder_that_goes_with_its_object_is_no_leak(before: Snapshot, temporary: Path) -> None:
    with tempfile.TemporaryDirectory():
        assert before.left() == []


def test_only_what_came_from_tempfile_into_its_folder_is_temporary(before: Snapshot, temporary: Path) -> None:
    (temporary / "cache").mkdir()
    (temporary / "tmp-by-hand").write_text("")
    tempfile.mkdtemp(dir=temporary / "cache")

    assert before.left() == []


# -- processes ----------------------------------------------------------------------------------------


def test_a_child_process_is_left(before: Snapshot) -> None:
    with subprocess.Popen(SLEEP) as process:
        (left,) = before.left()
        process.kill()

    assert (left.kind, left.what) == ("process", f"pid={process.pid} {' '.join(SLEEP)}")
    assert at("test_a_child_process_is_left", left.created)
    assert before.left() == []


def test_a_child_that_was_there_before_is_no_leak(origins: Origins) -> None:
    with subprocess.Popen(SLEEP) as process:
        assert Snapshot(origins).left() == []
        process.kill()


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("sleep 60", "app.py:2 in second"),
        ("sh -c sleep 61", "app.py:3 in shell"),
        ("sleep 61", "app.py:3 in shell"),
        ("sleep 6", ""),
        ("", ""),
    ],
)
def test_who_asked_for_a_process_is_known_by_its_command(command: str, place: str) -> None:
    asked = [
        ("sleep 60", "app.py:1 in first"),
        ("sleep 60", "app.py:2 in second"),
        ("sh -c sleep 61", "app.py:3 in shell"),
    ]

    assert spawned(command, asked) == place


# -- tasks and the grace period -----------------------------------------------------------------------


async def _poll() -> None:
    await asyncio.sleep(60)


def test_a_task_of_a_loop_that_stands_still_is_left(before: Snapshot) -> None:
    async def forget() -> asyncio.Task[None]:
        return asyncio.create_task(_poll(), name="poll")

    with asyncio.Runner() as runner:
        task = runner.run(forget())
        (left,) = before.left_in_time()

    assert (left.kind, left.what) == ("task", "poll: _poll")
    assert at("_poll", left.created)
    assert task.cancelled()


def test_a_loop_that_is_debugged_knows_where_a_task_was_made(before: Snapshot) -> None:
    async def forget() -> asyncio.Task[None]:
        return asyncio.create_task(_poll(), name="poll")

    with asyncio.Runner(debug=True) as runner:
        task = runner.run(forget())
        left = task_left(task)

    assert at("forget", left.created)


def test_what_ends_within_the_grace_period_is_no_leak(before: Snapshot, end: threading.Event) -> None:
    async def forget() -> asyncio.Task[None]:
        return asyncio.create_task(asyncio.sleep(0.02))

    threading.Thread(target=_wait, args=(end,)).start()
    threading.Timer(0.02, end.set).start()
    with asyncio.Runner() as runner:
        task = runner.run(forget())
        assert before.left_in_time() == []
        assert task.done()


class _Owner:
    def __init__(self, descriptor: int) -> None:
        self.itself: _Owner | None = None
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


def test_what_only_a_cycle_holds_is_no_leak(before: Snapshot, tmp_path: Path) -> None:
    gc.disable()
    try:
        owner = _Owner(os.open(tmp_path / "owned", os.O_CREAT))
        owner.itself = owner
        del owner

        assert [left.kind for left in before.left()] == ["file"]
        assert before.left_in_time() == []
    finally:
        gc.enable()


def test_kinds_can_be_left_out(before: Snapshot, keep: Keep, tmp_path: Path) -> None:
    keep(io.FileIO(tmp_path / "held", "w"))

    assert before.left_in_time(without=("file",)) == []


def test_a_system_task_of_trio_is_left() -> None:
    async def look() -> Left:
        known = trio_tasks()
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        (task,) = trio_tasks() - known
        return task_left(task)

    left = trio.run(look)
    assert (left.kind, left.what) == ("task", "trio.sleep_forever")


# -- origins ------------------------------------------------------------------------------------------


def test_nothing_is_remembered_once_it_has_ended(origins: Origins, keep: Keep) -> None:
    origins.begin()
    origins.end()
    keep(socket.socket())

    assert origins.made(lambda one: True) is None


def test_odd_arguments_are_nobody_elses_trouble(origins: Origins) -> None:
    origins.begin()
    for event in ("open", "socket.__new__", "subprocess.Popen", "tempfile.mkstemp", "os.posix_spawn"):
        sys.audit(event)
        sys.audit(event, object(), object())
    origins.end()
