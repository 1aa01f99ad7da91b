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

    A cancel that finds nothing to stop has come too early: it stops the run when it begins.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._going: weakref.WeakValueDictionary[int, Cancellable] = weakref.WeakValueDictionary()
        self._early: set[int] = set()  # both by the identity of the job

    @contextmanager
    def run_of(self, job: Any, agent: Any) -> Iterator[None]:
        """Around one run, which can be cancelled meanwhile."""
        with super().run_of(job, agent):
            self.begin(job, agent)
            try:
                yield
            finally:
                with self._lock:
                    self._going.pop(id(job), None)

    def begin(self, job: Any, one: Cancellable) -> None:
        """It can be cancelled from now on, as long as it is there."""
        with self._lock:
            self._going[id(job)] = one
            early = id(job) in self._early
            self._early.discard(id(job))
        if early:
            one.cancel()

    def cancel(self, job: Any) -> None:
        """Stop the run of this job and no other. Called from another thread."""
        with self._lock:
            one = self._going.get(id(job))
            if one is None:
                self._early.add(id(job))
        if one is not None:
            one.cancel()
