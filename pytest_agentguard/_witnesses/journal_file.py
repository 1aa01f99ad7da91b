"""The journal on disk: one append-only file that several processes write and that survives SIGKILL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_agentguard._core.events import Event
from pytest_agentguard._core.journal import decode, encode
from pytest_agentguard._core.ledger import Ledger, Recorder
from pytest_agentguard._witnesses import clock

_open, _write, _fstat = os.open, os.write, os.fstat  # taken now: an agent may replace what is in `os`

Entry = tuple[float, type[Event], dict[str, Any]]


class JournalFile:
    """A recorder that appends each fact with one write, so that facts of several processes never mix.

    It is safe in threads and after a fork. Where the program under test has closed the descriptor, or has a
    file of its own in that place, the file is opened again.
    """

    _fd: int
    _file: tuple[int, int]  # device and inode

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._open()

    def record(self, kind: type[Event], /, **fields: Any) -> None:
        """Append one fact, with the system-wide monotonic time."""
        # an empty line first: should a writer have died in the middle of its line, only that line is lost
        line = b"\n" + encode(clock.now(), kind, fields)
        if not self._is_mine():
            self._open()
        try:
            written = _write(self._fd, line)
        except OSError:  # closed since, or taken over by somebody who has the same file open for reading
            self._open()
            written = _write(self._fd, line)
        if written < len(line):
            _write(self._fd, line[written:])

    def close(self) -> None:
        """Close the file; a later fact opens it again."""
        if self._is_mine():
            os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> JournalFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[JournalFile], tuple[Path]]:
        return JournalFile, (self.path,)

    def _open(self) -> None:
        self._fd = _open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        status = _fstat(self._fd)
        self._file = (status.st_dev, status.st_ino)

    def _is_mine(self) -> bool:
        try:
            status = _fstat(self._fd)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._file


class AcrossProcesses:
    """A recorder for a tool in the test's own process that may also be called in its children.

    The process that made it records in ``recorder``; a forked or spawned child appends to the journal at
    ``path``, which ``Ledger.also_read(across.entries)`` merges.
    """

    def __init__(self, recorder: Recorder | None, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._recorder = recorder
        self._owner = os.getpid()
        self._journal: JournalFile | None = None
        self._seen: tuple[int, list[Entry]] = (0, [])

    def record(self, kind: type[Event], /, **fields: Any) -> None:
        """Append one fact, in memory or in the journal."""
        if self._recorder is not None and os.getpid() == self._owner:
            self._recorder.record(kind, **fields)
            return
        if self._journal is None:
            self._journal = JournalFile(self.path)
        self._journal.record(kind, **fields)

    def entries(self) -> list[Entry]:
        """What the children have recorded so far."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self._seen[0]:  # every question to the ledger asks here, so the file is read once
            self._seen = size, list(entries(self.path))
        return self._seen[1]

    def __reduce__(self) -> tuple[type[AcrossProcesses], tuple[None, Path]]:
        return AcrossProcesses, (None, self.path)


def entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """The raw facts of a journal in file order; none where the file does not exist."""
    try:
        with open(path, "rb") as lines:
            yield from decode(lines)
    except FileNotFoundError:
        return


def read(path: str | os.PathLike[str]) -> Ledger:
    """A ledger with all facts of a journal in file order, each with the time at which it was recorded."""
    ledger = Ledger()
    for t, kind, fields in entries(path):
        with contextlib.suppress(TypeError):  # not a whole fact: whoever wrote it is no witness
            ledger.append(kind(t=t, **fields))
    return ledger
