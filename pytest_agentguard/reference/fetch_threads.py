"""The same fetch tool for plain threads: any number of them may share it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.client import head_of
from pytest_agentguard.reference.closing import Lifeline
from pytest_agentguard.reference.fetch import Fetched, Fetching
from pytest_agentguard.reference.supervisor import CANCEL
from pytest_agentguard.reference.threads import moment, patience


class ThreadFetchTool(Fetching):
    """``tool(id)`` gives the text of an allowed id, or raises an ``AgentError`` that says why not.

    ``cancel`` stops it, from another thread: what waits ends with ``RunCancelled``, later calls are refused.
    """

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        self.lifeline = Lifeline()

    def __call__(self, id: str) -> str:
        """One call, with its attempts."""
        url = self.url_of(id)
        with self.told():
            return self._call(id, url)

    def _call(self, id: str, url: str) -> str:
        attempts = self.call_attempts()
        while True:
            fetched = self.begin(id, attempts)
            try:
                return self.exchange(fetched, self.request(url, attempts))
            except errors.AgentError as failure:
                wait = attempts.wait_after(failure)
            self.stop.sleep(wait)

    def permit(self) -> None:
        """Guard: nothing starts after a stop; after a cancel, whoever comes hears of that."""
        self.stop.look()

    def cancel(self) -> None:
        """Stop the tool, from another thread."""
        self.stop.stop(CANCEL)
        self.lifeline.cut()

    def exchange(self, fetched: Fetched, request: dict[str, Any]) -> str:
        """One request and its response, on a connection of its own."""
        ends = moment(self.bounds.request_timeout)
        asked = {**request, "timeout": patience(self.bounds, min(ends, self.stop.ends))}
        with (
            fetched.reported(),
            self.explained(ends),
            self.lifeline.of_exchange() as extensions,
            httpx.Client(**self.settings()) as client,
            client.stream(**asked, extensions=extensions) as response,
        ):
            fetched.begin(head_of(response))
            for chunk in response.iter_raw():
                self.in_time(ends)
                fetched.feed(chunk)
            self.stop.look()  # a connection that was shut down may look like the end of a body
        return fetched.text()

    def in_time(self, request_ends: float = math.inf) -> None:
        """Guard: whatever keeps coming, the exchange and the tool end in time, and with a cancel."""
        self.stop.look()
        if time.monotonic() >= request_ends:
            raise self.too_slow()

    @contextmanager
    def explained(self, request_ends: float) -> Iterator[None]:
        """A silence up to the end of the exchange or of all, or a cancel, is reported as that."""
        try:
            yield
        except httpx.TransportError as error:
            if isinstance(error, httpx.TimeoutException):
                self.in_time(request_ends)
            self.stop.look()
            raise
        except KeyboardInterrupt:
            self.stop.stop(CANCEL)
            raise
