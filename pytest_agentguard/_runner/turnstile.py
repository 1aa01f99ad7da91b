"""Keeps what takes all of a machine apart from what is about time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turnstile:
    """Light runs go side by side; heavy ones go ``heavy_at_once`` at a time, and never beside a light one.

    A sweep of a thousand jobs next to an agent with an idle timeout of a second would make a healthy stream
    look as if it had stalled.
    """

    def __init__(self, heavy_at_once: int = 1) -> None:
        self._most = max(1, heavy_at_once)
        self._changed = threading.Condition()
        self._light = 0
        self._heavy = 0

    @contextmanager
    def pass_through(self, heavy: bool) -> Iterator[None]:
        """Wait for the turn of a heavy or a light run, and hold it for the block."""
        with self._changed:
            if heavy:
                self._changed.wait_for(lambda: not self._light and self._heavy < self._most)
                self._heavy += 1
            else:
                self._changed.wait_for(lambda: not self._heavy)
                self._light += 1
        try:
            yield
        finally:
            with self._changed:
                if heavy:
                    self._heavy -= 1
                else:
                    self._light -= 1
                self._changed.notify_all()
