"""The evidence of the whole table, computed once in a test session, however many workers it has."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mutants import table

_SECONDS = 600.0  # the longest wait for a worker that computes it
_LOOK_SECONDS = 0.2


def evidence(folder: Path) -> table.Evidence:
    """What is written in ``folder``, computed by whoever comes first."""
    written = folder / "mutants.json"
    with _alone(folder / "mutants.lock"):
        if not written.exists():
            unfinished = written.with_suffix(f".{os.getpid()}")
            unfinished.write_text(table.run().to_json(), encoding="utf-8")
            unfinished.replace(written)
    return table.Evidence.from_json(written.read_text(encoding="utf-8"))


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock that ends with its process."""
    until, look = time.monotonic() + _SECONDS, threading.Event()
    with open(lock, "w") as file:
        while not _taken(file.fileno()):
            if time.monotonic() > until:
                raise TimeoutError(f"{lock} is held for more than {_SECONDS:g} s")
            look.wait(_LOOK_SECONDS)
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
