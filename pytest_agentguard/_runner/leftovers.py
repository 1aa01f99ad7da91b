"""What a run has left in its own process, and the temporary folder that is its own."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_agentguard._runner.orders import RunOrder
from pytest_agentguard._witnesses.leaks import Left, Snapshot, task_left
from pytest_agentguard._witnesses.origins import Origins
from pytest_agentguard._witnesses.places import Place

Found = tuple[str, Left]  # lane and what is left
_TEMPORARY = "tmp"  # what names of temporary files begin with, whoever makes them


def own_temporary_folder(order: RunOrder) -> None:
    """Give this process and its children a folder of their own for temporary files."""
    folder = order.journal.parent / f"tmp-{order.id}"
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


class Before:
    """What was there when the run began.

    ``tell`` gets each command that becomes a process, and where it was asked for.
    """

    def __init__(self, order: RunOrder, tell: Callable[[str, str], object]) -> None:
        self._folder = order.journal.parent / f"tmp-{order.id}"
        # who sees to processes is the supervisor
        self._origins, journal = Origins(tell), str(order.journal.absolute())
        self._snapshot = Snapshot(self._origins, processes=False, ignored=(journal,))

    @property
    def mine(self) -> set[threading.Thread]:
        """The runner's own threads."""
        return self._snapshot.mine

    def left(self, lane: str) -> Iterator[Found]:
        """Threads, sockets and files that were not there before, as facts of ``lane``."""
        if self._snapshot.left():
            gc.collect()  # what only a reference cycle holds is as good as closed
        found = self._snapshot.left()
        known = set(map(os.path.basename, self._origins.temporaries()))
        found += [Left("temporary", name) for name in _names_in(self._folder) if name not in known]
        return ((lane, one) for one in found)


def tasks_left(
    before: Collection[Any],
    now: Iterable[Any],
    lane_of: Callable[[Any], str],
    place_of: Callable[[Any], Place | None] = lambda task: None,
) -> Iterator[Found]:
    """Tasks of the running loop that are there ``now`` and were not ``before``."""
    return ((lane_of(task), task_left(task, place_of(task))) for task in now if task not in before)


def _names_in(folder: Path) -> list[str]:
    """What programs that the run has started have left in its folder."""
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith(_TEMPORARY))
    except OSError:  # the agent has removed it
        return []
