"""What code has left in its own process: tasks, threads, sockets, files, temporary files, child processes.

A look at what is there costs little; who made it is asked only of what is new and looks forgotten. Whatever
may be kept on purpose is no leak: daemon threads, workers of pools that wait, idle connections, logs.
"""

from __future__ import annotations

import asyncio
import gc
import operator
import os
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from pytest_agentguard._core import limits
from pytest_agentguard._witnesses import clock, descriptors, processes
from pytest_agentguard._witnesses.origins import Origins
from pytest_agentguard._witnesses.places import Place, asker_of, beginning

_POOLS = (  # files of thread pools, whose workers wait for work in a queue
    os.path.join("concurrent", "futures", "thread.py"),
    os.path.join("anyio", "_backends", "_asyncio.py"),
    os.path.join("trio", "_core", "_thread_cache.py"),
)
_WAITING = ("threading.py", "queue.py", *_POOLS)
_TESTS_OF_ANYIO = "TestRunner._run_tests_and_fixtures"  # goes on until the last test of its loop
_WARM = "pytest_agentguard._runner.warm"  # a process of the battery beside a test
_OUR_FILES = "agentguard-"  # what our own temporary folders begin with
_OF_PROCESS = "pymp-"  # a folder of multiprocessing, which goes with the process
_ALL_TASKS = ("_all_tasks", "_scheduled_tasks", "_eager_tasks")  # in Python 3.11, and after it
_TURN_SECONDS = 0.01


class Left(NamedTuple):
    """Something that is still there: its kind, what it is, and where it was made, as far as that is known."""

    kind: str  # process, thread, task, socket, listener, file, temporary
    what: str
    created: str = ""


class Snapshot:
    """What is there now, to be compared with what is there later.

    ``mine`` are threads of whoever looks, ``ignored`` its files. ``processes`` says whether child
    processes are looked at as well.
    """

    def __init__(self, origins: Origins, *, processes: bool = True, ignored: Collection[str] = ()) -> None:
        self.mine: set[threading.Thread] = set()
        self._origins = origins
        self._ignored = ignored
        self._threads = set(threading.enumerate())
        self._open = descriptors.opened()
        self._children = _children() if processes else None
        self._tasks = set(_pending_tasks())
        origins.begin()

    def left(self, ports: Collection[int] = ()) -> list[Left]:
        """What is there and was not; ``ports`` are those at which the witnesses listen."""
        return [
            *self._threads_left(),
            *self._descriptors_left(ports),
            *self._temporaries_left(),
            *self._children_left(),
        ]

    def left_in_time(self, ports: Collection[int] = (), *, without: Collection[str] = ()) -> list[Left]:
        """The same with tasks, after a grace period that ends as soon as nothing is left.

        For code that has ended in this very thread: event loops that stand still are run meanwhile. Kinds in
        ``without`` are not looked for.
        """
        begun, is_first = clock.now(), True
        while found := [one for one in (*self._tasks_left(), *self.left(ports)) if one.kind not in without]:
            if clock.now() - begun >= max(_grace(one.kind) for one in found):
                break
            if is_first:
                gc.collect()  # what only a reference cycle holds is as good as gone
                is_first = False
            self._turn()
        self._origins.end()
        return found

    # -- by kind --------------------------------------------------------------------------------------

    def _threads_left(self) -> Iterator[Left]:
        for thread in threading.enumerate():
            if thread not in self._threads and thread not in self.mine and is_leaked(thread):
                place = self._origins.made(partial(operator.is_, thread)) or _target(thread)
                yield Left("thread", thread.name, _text(place))

    def _descriptors_left(self, ports: Collection[int]) -> Iterator[Left]:
        now = descriptors.opened()
        if now.keys() <= self._open.keys():
            return
        new = {key: descriptor for key, descriptor in now.items() if key not in self._open}
        for one in descriptors.forgotten(new, self._origins, ports=ports, ignored=self._ignored):
            yield Left(one.kind, one.what, _text(one.place))

    def _temporaries_left(self) -> Iterator[Left]:
        made = self._origins.temporaries()
        if not made:
            return
        folder, kept = os.path.realpath(tempfile.gettempdir()), None
        for path, place in made.items():
            name = os.path.basename(path)
            if os.path.realpath(os.path.dirname(path)) != folder or not os.path.lexists(path):
                continue
            kept = _removed_at_exit() if kept is None else kept
            if not name.startswith((_OUR_FILES, _OF_PROCESS)) and path not in kept:
                yield Left("temporary", name, _text(place))

    def _children_left(self) -> Iterator[Left]:
        if self._children is None or not processes.have_children():
            return
        for pid in _children() - self._children:
            process = processes.described(pid)
            if process is not None and not process.is_helper and _WARM not in process.command:
                yield Left("process", f"pid={pid} {process.command}", self._origins.spawned(process.command))

    def _tasks_left(self) -> Iterator[Left]:
        return (task_left(task) for task in _pending_tasks() if task not in self._tasks)

    def _turn(self) -> None:
        """Let go on what needs a loop or another thread for it."""
        loops = {task.get_loop() for task in _pending_tasks() if task not in self._tasks}
        for loop in loops:
            if not loop.is_running() and not loop.is_closed() and asyncio._get_running_loop() is None:
                loop.run_until_complete(asyncio.sleep(_TURN_SECONDS))
                return
        clock.sleep(_TURN_SECONDS)


# -- tasks --------------------------------------------------------------------------------------------


def task_left(task: Any, place: Place | None = None) -> Left:
    """A task of asyncio or trio as something left; ``place`` is where it was made, if that is known.

    Else it is where its coroutine is defined, unless that is the standard library.
    """
    is_trio = not hasattr(task, "get_coro")
    coroutine = task.coro if is_trio else task.get_coro()
    name = getattr(coroutine, "__qualname__", None) or type(coroutine).__qualname__
    label = task.name if is_trio else f"{task.get_name()}: {name}"
    return Left("task", label, _text(place or _debugged(task) or _definition(coroutine)))


def trio_tasks() -> set[Any]:
    """Every task of the trio loop that runs in this thread, the loop's own among them."""
    trio = sys.modules["trio"]
    found, waiting = set(), [trio.lowlevel.current_root_task()]
    while waiting:
        task = waiting.pop()
        found.add(task)
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def _pending_tasks() -> list[asyncio.Task[Any]]:
    """Tasks of every loop of this process that are not done.

    Before Python 3.14 asyncio has them in one place; from then on it tells of this thread's loop alone.
    """
    found: set[asyncio.Task[Any]] = set()
    for name in _ALL_TASKS:
        for _ in range(10):
            try:
                found.update(getattr(asyncio.tasks, name, ()))
            except RuntimeError:  # another thread has just made one
                continue
            break
    if sys.version_info >= (3, 14):
        try:
            found |= asyncio.all_tasks(asyncio.get_event_loop())
        except RuntimeError:  # there is none
            pass
    return [task for task in found if not task.done() and not _is_of_anyio(task)]


def _is_of_anyio(task: asyncio.Task[Any]) -> bool:
    return getattr(task.get_coro(), "__qualname__", "").endswith(_TESTS_OF_ANYIO)


def _debugged(task: Any) -> Place | None:
    """Where a task was made, which a loop remembers that is being debugged."""
    frames = getattr(task, "_source_traceback", None) or ()
    return asker_of(Place(frame.filename, frame.lineno, frame.name) for frame in reversed(frames))


def _definition(coroutine: Any) -> Place | None:
    names = ("cr_code", "gi_code", "ag_code")
    code = next((getattr(coroutine, name) for name in names if hasattr(coroutine, name)), None)
    return None if code is None else beginning(code)


# -- threads ------------------------------------------------------------------------------------------


def is_leaked(thread: threading.Thread) -> bool:
    """Whether it keeps a process from ending: alive, no daemon, and no pooled worker that waits for work."""
    if thread.daemon or not thread.is_alive() or thread.ident is None:
        return False
    files = [one.f_code.co_filename for one in _stack(thread)]
    idle = any(file.endswith(_POOLS) for file in files) and all(file.endswith(_WAITING) for file in files)
    return not idle


def _target(thread: threading.Thread) -> Place | None:
    """Where the function is defined that it runs: the outermost that is not of the standard library."""
    found = None
    for frame in _stack(thread):
        found = beginning(frame.f_code) or found
    return found


def _stack(thread: threading.Thread) -> Iterator[FrameType]:
    """From the innermost frame outwards."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back


# -- the rest -----------------------------------------------------------------------------------------


def _children() -> set[int]:
    return set(processes.children(os.getpid())) if processes.have_children() else set()


def _removed_at_exit() -> set[str]:
    """Temporary files and folders whose objects are still there: they go with them, or with the process."""
    kept: set[str] = set()
    for one in gc.get_objects():
        kind = type(one)
        if kind is tempfile.TemporaryDirectory or kind.__name__ == "_TemporaryFileWrapper":
            kept.add(os.path.abspath(os.fsdecode(one.name)))
    return kept


def _grace(kind: str) -> float:
    return limits.PROCESS_GRACE_SECONDS if kind == "process" else limits.WATCH_SECONDS


def _text(place: Place | None) -> str:
    return "" if place is None else str(place)
