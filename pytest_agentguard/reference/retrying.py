"""What is tried again after a failure, when, and how often: for everything that sends requests. No I/O."""

from __future__ import annotations

import math
import random
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.budget import AttemptBudget

_BUSY = frozenset({408, 409, 429})  # and all of 500 and above
_LOST = (errors.Unreachable, errors.ConnectionLost, errors.IdleTimeout, errors.RequestTimeout)


class Attempts:
    """The attempts of one call: ``begin`` each, and after a failure ask ``wait_after`` for the pause.

    A failure has ``status`` (0 where no head of a response had come) and ``retry_after`` (seconds).
    """

    first_wait = 0.25  # s, twice as long after each attempt …
    longest_wait = 8.0  # … up to this
    longest_asked = 120.0  # a server that asks for more than this gets no second request from this call

    def __init__(self, budget: AttemptBudget, *, most: int | None = None, ends: float = math.inf) -> None:
        self.budget = budget
        self.most = budget.attempts if most is None else most  # of this call
        self.ends = ends  # the moment, on the monotonic clock, at which all is over
        self.made = 0
        self._key = str(uuid.uuid4())

    def begin(self) -> None:
        """Guard: an attempt is counted before its request is made."""
        self.budget.reserve()
        self.made += 1

    def key(self) -> str:
        """Guard: the same for every attempt of one call, and another for every call."""
        return self._key

    def headers(self) -> dict[str, str]:
        """What tells the server that several requests are one call."""
        return {"Idempotency-Key": self.key()}

    def wait_after(self, failure: errors.AgentError) -> float:
        """Seconds until the next attempt. Raises ``failure`` where there is to be none."""
        if not self.is_worth_it(failure) or self.are_spent():
            raise failure
        wait = self.wait(failure)
        if not self.fits(wait):
            raise failure
        return wait

    def are_spent(self) -> bool:
        """Whether this call, or all calls together, have used their attempts."""
        return self.made >= self.most or self.budget.left <= 0

    def is_worth_it(self, failure: errors.AgentError) -> bool:
        """Guard: only what may pass by itself is tried again, and nothing once a reply has begun."""
        if failure.status == 0:
            return isinstance(failure, _LOST)
        return failure.status in _BUSY or failure.status >= 500

    def wait(self, failure: errors.AgentError) -> float:
        """Guard: never sooner than the server asks."""
        return self.backoff() if failure.retry_after is None else failure.retry_after

    def backoff(self) -> float:
        """A pause that doubles, a little different each time, so that callers do not come back together."""
        longest = min(self.longest_wait, self.first_wait * 2.0 ** min(self.made - 1, 32))
        return longest * random.uniform(0.75, 1.0)

    def fits(self, wait: float) -> bool:
        """Guard: a pause that outlasts the deadline, or all patience, is not begun."""
        return wait <= self.longest_asked and time.monotonic() + wait < self.ends


def retry_after(headers: Mapping[str, str]) -> float | None:
    """What ``Retry-After`` asks for, in seconds; None where it is missing, past or cannot be read."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        seconds = _until(text)
    return seconds if seconds > 0 else None  # no number is not greater either


def _until(date: str) -> float:
    """Seconds from now until an HTTP date."""
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
