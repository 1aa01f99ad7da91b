"""Follows a journal while it grows, in a process whose agent may close any descriptor."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

# taken now, since an agent may replace what is in a module
_open, _pread, _fstat, _loads = os.open, os.pread, os.fstat, json.loads
_PIECE = 64 * 1024

Fact = tuple[str, dict[str, Any]]
"""The kind of a fact, and its fields."""


class Following:
    """The facts of a journal from its beginning; where its descriptor is gone, it is opened again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._file = (0, 0)  # device and inode
        self._read = 0
        self._rest = b""
        self._found: deque[Fact] = deque()

    def next(self) -> Fact | None:
        """The next fact; None as long as there is none."""
        while not self._found:
            data = self._piece()
            if not data:
                return None
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._found.extend(fact for line in lines if (fact := _fact(line)) is not None)
        return self._found.popleft()

    def _piece(self) -> bytes:
        try:
            if not self._is_mine():
                self._fd = _open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                self._file = self._identity()
            data = _pread(self._fd, _PIECE, self._read)
        except OSError:  # nothing to read, or closed in this moment: the next look opens it
            return b""
        self._read += len(data)
        return data

    def _is_mine(self) -> bool:
        try:
            return self._fd >= 0 and self._identity() == self._file
        except OSError:
            return False

    def _identity(self) -> tuple[int, int]:
        status = _fstat(self._fd)
        return status.st_dev, status.st_ino


def _fact(line: bytes) -> Fact | None:
    try:
        _, kind, fields = _loads(line)
    except (ValueError, TypeError):
        return None
    return (kind, fields) if isinstance(fields, dict) else None
