"""Where things were made: files, sockets, threads, temporary files and processes, as they are asked for.

Python tells an audit hook of each of them. The hook cannot be taken out again, so it is put in where leaks
are looked for and nowhere else, and does nothing while nobody does.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._witnesses.places import Place, asker
from pytest_agentguard._witnesses.processes import COMMAND, described

_SOURCES = (".pyc", ".py", ".so", ".pth")  # what an import opens, many times over
_COMMAND = 500  # characters of a command that is remembered
_fsdecode = os.fsdecode


class Origins:
    """Remembers the latest of each kind, from ``begin`` to ``end``.

    ``tell`` gets each command that becomes a process and where it was asked for, before it is there.
    """

    def __init__(self, tell: Callable[[str, str], object] | None = None) -> None:
        self._tell = tell
        self._is_on = False
        self._is_installed = False
        self._spawned: deque[tuple[str, str]] = deque(maxlen=limits.ORIGINS)
        self._opened: deque[tuple[str, Place | None]] = deque(maxlen=limits.ORIGINS)
        self._temporary: deque[tuple[str, Place | None]] = deque(maxlen=limits.ORIGINS)
        self._made: deque[tuple[weakref.ref[Any], Place | None]] = deque(maxlen=limits.ORIGINS)
        self._acts: dict[str, Callable[[tuple[Any, ...]], None]] = {
            "open": self._opens,
            "socket.__new__": self._makes,
            "_thread.start_new_thread": self._starts,
            "_thread.start_joinable_thread": self._starts,
            "tempfile.mkstemp": self._makes_temporary,
            "tempfile.mkdtemp": self._makes_temporary,
            "subprocess.Popen": self._spawns,
            "os.posix_spawn": self._spawns,
            "os.fork": self._forks,
            "os.forkpty": self._forks,
        }

    def begin(self) -> None:
        """Forget everything, and remember from now on."""
        self._opened.clear()
        self._temporary.clear()
        self._made.clear()
        self._spawned.clear()
        if not self._is_installed:
            self._is_installed = True
            sys.addaudithook(self._hook)
        self._is_on = True

    def end(self) -> None:
        """Remember nothing more."""
        self._is_on = False

    # -- questions ------------------------------------------------------------------------------------

    def opened(self, path: str, status: os.stat_result) -> tuple[bool, Place | None]:
        """Whether Python code has opened this file, and where; ``path`` as the kernel names it."""
        for name, place in list(self._opened)[::-1]:
            if name == path or _is_same(name, status):
                return True, place
        return False, None

    def made(self, fits: Callable[[Any], object]) -> Place | None:
        """Where the latest socket or thread was made that is still there and fits."""
        there = ((reference(), place) for reference, place in list(self._made)[::-1])
        return next((place for one, place in there if one is not None and fits(one)), None)

    def temporaries(self) -> dict[str, Place | None]:
        """Everything that came from ``tempfile``, by its absolute path."""
        return dict(self._temporary)

    def spawned(self, command: str) -> str:
        """Where this process was started; empty where that is not known."""
        return spawned(command, list(self._spawned))

    # -- the hook, which must never raise -------------------------------------------------------------

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_on and event in self._acts:
            try:
                self._acts[event](args)
            except Exception:  # whatever was passed, what Python does with it is not ours to stop
                return

    def _opens(self, args: tuple[Any, ...]) -> None:
        path = args[0]
        if isinstance(path, int) or (isinstance(path, str) and path.endswith(_SOURCES)):
            return
        self._opened.append((os.path.abspath(_fsdecode(path)), asker(sys._getframe(2))))

    def _makes(self, args: tuple[Any, ...]) -> None:
        self._made.append((weakref.ref(args[0]), asker(sys._getframe(2))))

    def _starts(self, args: tuple[Any, ...]) -> None:
        thread = getattr(args[0], "__self__", None)
        if isinstance(thread, threading.Thread):
            self._made.append((weakref.ref(thread), asker(sys._getframe(2))))

    def _makes_temporary(self, args: tuple[Any, ...]) -> None:
        self._temporary.append((os.path.abspath(_fsdecode(args[0])), asker(sys._getframe(2))))

    def _spawns(self, args: tuple[Any, ...]) -> None:
        words = [args[1]] if isinstance(args[1], str | bytes) else args[1]
        self._spawn(" ".join(map(_fsdecode, words)))

    def _forks(self, args: tuple[Any, ...]) -> None:
        me = described(os.getpid())  # a forked process has the command line of its parent
        self._spawn(me.command if me is not None else "")

    def _spawn(self, command: str) -> None:
        place = asker(sys._getframe(3))
        self._spawned.append((command[:_COMMAND], str(place or "")))
        if self._tell is not None:
            self._tell(*self._spawned[-1])


def spawned(command: str, asked: Sequence[tuple[str, str]]) -> str:
    """Where a process was asked for, by the latest command that may have become this one; else empty."""
    for words, place in reversed(asked):
        if words[:COMMAND] == command or (command and words.endswith(f" {command}")):  # of a shell
            return place
    return ""


def _is_same(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:
        return False
