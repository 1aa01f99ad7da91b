"""The runs of one process: what cancelled ones had received, and how those in threads are stopped."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pytest_agentguard.reference.errors import RunCancelled

_KEPT = 64  # texts that nobody has asked for yet


class Cancellable(Protocol):
    """An agent or a tool in a thread."""

    def cancel(self) -> None:
        """Stop it, from another thread."""


class Runs:
    """Every run goes through ``run_of``; after a cancel, ``kept`` gives the text that had come."""

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}  # by the identity of the job

    @contextmanager
    def run_of(self, job: Any, agent: Any) -> Iterator[None]:
        """Around one run. Where it is cancelled, its text stays until it is asked for."""
        self._kept.pop(id(job), None)
        try:
            yield
        except RunCancelled:
            self._keep(job, agent.kept)
            raise
        except Exception:
            raise
        except BaseException:  # the cancel of a task, or SIGINT
            self._keep(job, agent.kept)
            raise

    def kept(self, job: Any) -> str | None:
        """The text of a run that was cancelled; None where it was not."""
        return self._kept.pop(id(job), None)

    def _keep(self, job: Any, text: str) -> None:
        while len(self._kept) >= _KEPT:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[id(job)] = text


class ThreadRuns(Runs):
    """The same for runs in threads, which ``cancel`` stops from another one.

    A cancel that finds nothing to stop has come too early: it stops what begins next.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._going: weakref.WeakSet[Cancellable] = weakref.WeakSet()
        self._early = False

    @contextmanager
    def run_of(self, job: Any, agent: Any) -> Iterator[None]:
        """Around one run, which can be cancelled meanwhile."""
        with super().run_of(job, agent):
            self.begin(agent)
            try:
                yield
            finally:
                with self._lock:
                    self._going.discard(agent)

    def begin(self, one: Cancellable) -> None:
        """It can be cancelled from now on, as long as it is there."""
        with self._lock:
            self._going.add(one)
            early, self._early = self._early, False
        if early:
            one.cancel()

    def cancel(self) -> None:
        """Stop all that is going on. Called from another thread."""
        with self._lock:
            going = list(self._going)
            self._early = not going
        for one in going:
            one.cancel()
