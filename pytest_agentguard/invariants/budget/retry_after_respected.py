"""Where a provider says how long to wait, the same request does not come again any earlier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    Witness,
)

_STATUSES = (429, 503)
_TOLERANCE = 0.05  # s; timers of event loops may fire a little early


def check(ledger: Ledger) -> Iterator[Finding]:
    """Measured from when the first request was read to when the next was: never less than the client waited.

    A request that says something else, to another model for instance, need not wait.
    """
    for attempt, later in reading.followed(ledger):
        wait = attempt.retry_after
        if attempt.status not in _STATUSES or wait is None or wait <= _TOLERANCE:
            continue
        if later is None or not reading.is_same_request(attempt, later):
            yield exercised(*attempt.evidence)
            continue
        if not attempt.asked.t or not later.asked.t:
            continue  # a ledger without a clock
        waited = later.asked.t - attempt.asked.t
        yield exercised(*attempt.evidence, later.asked)
        if waited < wait - _TOLERANCE:
            yield violated(
                f"request={later.request} waited={waited:.2f} s retry_after={wait:g} s "
                f"status={attempt.status}",
                *attempt.evidence, later.asked,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, body="{1}", t=1.0)
_REPLY = ReplyStarted(
    witness=Witness.ENDPOINT, stream="s1", request="r1", status=429, fault="status-429", retry_after=1.0
)
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_LIMITED = [_JOB, _ASKED, _REPLY, _END]
_EARLY = replace(_ASKED, request="r2", t=1.5)
_IN_TIME = replace(_ASKED, request="r2", t=2.0)
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="rate limit")
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/report", t=1.0)
_BUSY = HttpAnswered(
    witness=Witness.COUNTING_SERVER, request="h1", status=503, failed=True, retry_after=1.0, t=1.0
)
_HTTP_EARLY = replace(_HTTP, request="h2", t=1.5)

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="Providers extend the limit of a client that comes back early, and the attempt is wasted.",
    source="wire facts §4.1 (Retry-After), §7 trap 13",
    remedy="Wait for as many seconds as Retry-After says before the next attempt, or do not try again.",
    occasion="status 429 or 503 with a Retry-After in seconds",
    holds=[Ledger([*_LIMITED, _IN_TIME, _ENDED]), Ledger([*_LIMITED, _ENDED])],
    breaks=[Ledger([*_LIMITED, _EARLY, _ENDED]), Ledger([_HTTP, _BUSY, _HTTP_EARLY])],
    silent=[
        Ledger([*_LIMITED, replace(_EARLY, body="{2}"), _ENDED]),
        Ledger([*_LIMITED, replace(_EARLY, t=1.98), _ENDED]),
        Ledger([_HTTP, _BUSY, replace(_HTTP_EARLY, url="http://127.0.0.1:1/other")]),
        Ledger([_HTTP, _HTTP_EARLY, replace(_BUSY, t=1.6)]),
    ],
    idle=[
        Ledger([_JOB, _ASKED, replace(_REPLY, retry_after=None), _END, _EARLY, _ENDED]),
        Ledger([_JOB, _ASKED, replace(_REPLY, status=200), _END, _EARLY, _ENDED]),
        Ledger([_JOB, replace(_ASKED, t=0.0), _REPLY, _END, _EARLY, _ENDED]),
    ],
)
