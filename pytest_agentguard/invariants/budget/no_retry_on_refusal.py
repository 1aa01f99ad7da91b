"""A request that was refused for what it is does not come again."""

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
    TranscriptRejected,
    Witness,
)

_REFUSALS = (400, 401, 403, 404, 422)


def check(ledger: Ledger) -> Iterator[Finding]:
    """The same is the same text or JSON to the same place, with nothing else (a new token) in between."""
    for attempt, later in reading.followed(ledger):
        if attempt.status not in _REFUSALS:
            continue
        yield exercised(*attempt.evidence)
        if later is None or not reading.is_next(ledger, attempt, later):
            continue
        if reading.is_same_request(attempt, later):
            yield violated(
                f"request={later.request} repeats request={attempt.request} after status={attempt.status}",
                *attempt.evidence, later.asked,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, body='{"model": "m"}')
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", status=401, fault="status-401")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_REFUSED = [_JOB, _ASKED, _REPLY, _END]
_AGAIN = replace(_ASKED, request="r2")
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="not authorised")
_REJECTED = TranscriptRejected(witness=Witness.ENDPOINT, request="r1", problem="call_1 has no result")
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/report")
_MISSING = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", status=404, failed=True)
_TOKEN = replace(_HTTP, request="h2", url="http://127.0.0.1:1/token", method="POST")
_HTTP_AGAIN = replace(_HTTP, request="h3")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="The answer will be the same; asking on gets an account locked and hides what is wrong.",
    source="wire facts §4.1 (retried statuses), §4.5",
    remedy="Treat 400, 401, 403, 404 and 422 as final; try again only with another request.",
    occasion="a request that was answered with 400, 401, 403, 404 or 422",
    holds=[Ledger([*_REFUSED, _ENDED]), Ledger([_HTTP, _MISSING])],
    breaks=[
        Ledger([*_REFUSED, _AGAIN, _ENDED]),
        Ledger([*_REFUSED, replace(_AGAIN, body='{"model":"m"}'), _ENDED]),
        Ledger([_JOB, _ASKED, _REJECTED, _AGAIN, _ENDED]),
        Ledger([_HTTP, _MISSING, _HTTP_AGAIN]),
    ],
    silent=[
        Ledger([*_REFUSED, replace(_AGAIN, body='{"model": "other"}'), _ENDED]),
        Ledger([_HTTP, replace(_MISSING, status=401), _TOKEN, _HTTP_AGAIN]),
        Ledger([*_REFUSED, _ENDED, _JOB, _AGAIN, _ENDED]),
    ],
    idle=[
        Ledger([_JOB, _ASKED, replace(_REPLY, status=503), _END, _AGAIN, _ENDED]),
        Ledger([_HTTP, replace(_MISSING, status=408), _HTTP_AGAIN]),
    ],
)
