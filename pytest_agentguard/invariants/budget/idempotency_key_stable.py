"""An idempotency key stays the same when a request is tried again, and is new for a new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RunStarted,
    StreamEnded,
    Witness,
)

_HEADER = "idempotency-key"


def check(ledger: Ledger) -> Iterator[Finding]:
    """A retry is the same request after one that failed; whoever sends no key at all gives no occasion."""
    for attempt, later in reading.followed(ledger):
        key = _key(attempt)
        if not key or later is None or not attempt.failed or not reading.is_same_request(attempt, later):
            continue
        yield exercised(attempt.asked, later.asked)
        if _key(later) != key:
            yield violated(
                f"retry={later.request} of={attempt.request}: key={_key(later) or 'absent'} was={key}",
                attempt.asked, later.asked,
            )  # fmt: skip
    yield from _reused(ledger)


def _reused(ledger: Ledger) -> Iterator[Finding]:
    first: dict[str, reading.Attempt] = {}
    last: reading.Attempt | None = None
    for attempt in reading.attempts(ledger):
        key = _key(attempt)
        if not key:
            continue
        before = first.setdefault(key, attempt)
        if last is not None and _is_new(last, attempt):
            yield exercised(last.asked, attempt.asked)
        if before is not attempt and _is_new(before, attempt):
            yield violated(
                f"key={key} of request={before.request} reused by request={attempt.request}",
                before.asked, attempt.asked,
            )  # fmt: skip
        last = attempt


def _key(attempt: reading.Attempt) -> str:
    asked = attempt.asked
    return asked.key if isinstance(asked, HttpReceived) else f"{asked.headers.get(_HEADER, '')}"


def _is_new(before: reading.Attempt, attempt: reading.Attempt) -> bool:
    """Whether the later one is surely something else: another use of the tool, or another body.

    What follows a redirect is still the same, wherever it goes.
    """
    if 300 <= before.status < 400:
        return False
    uses = {before.call, attempt.call}
    if len(uses) == 2 and not uses & {"", "?"}:
        return True
    one, other = before.asked, attempt.asked
    if isinstance(one, HttpReceived) and isinstance(other, HttpReceived):
        return one.method == other.method and (one.body, one.body_bytes) != (other.body, other.body_bytes)
    return before.turn != attempt.turn and not reading.is_same_request(before, attempt)


_JOB = RunStarted(witness=Witness.RUNNER)
_POST = HttpReceived(
    witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/orders", method="POST", key="k1"
)
_FAILED = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", status=503, failed=True)
_AGAIN = replace(_POST, request="h2")
_USE = FetchStarted(witness=Witness.RUNNER, call="f1", input="order")
_OVER = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="status 503")
_TWO_USES = [_JOB, _USE, _POST, _FAILED, _OVER, replace(_USE, call="f2")]
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, body="{1}", headers={_HEADER: "k1"})
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", status=503, fault="status-503")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_TURN = [_JOB, _ASKED, _REPLY, _END]
_RETRY = replace(_ASKED, request="r2")
_OTHER_KEY = replace(_RETRY, headers={_HEADER: "k2"})

INVARIANT = Invariant(
    check,
    level=Level.MAY,
    why=(
        "A server tells a repetition by its key: with a new one the work is done twice, with an old one a "
        "new request gets an old answer."
    ),
    source="requirement B18",
    remedy="Make one key for each call of the tool, and send it with every attempt of that call.",
    occasion="a request with an Idempotency-Key that was tried again, or two different ones with a key",
    holds=[
        Ledger([_JOB, _POST, _FAILED, _AGAIN]),
        Ledger([*_TWO_USES, replace(_AGAIN, key="k2")]),
        Ledger([*_TURN, _RETRY]),
    ],
    breaks=[
        Ledger([_JOB, _POST, _FAILED, replace(_AGAIN, key="k2")]),
        Ledger([_JOB, _POST, _FAILED, replace(_AGAIN, key="")]),
        Ledger([*_TWO_USES, _AGAIN]),
        Ledger([*_TURN, _OTHER_KEY]),
        Ledger([*_TURN, replace(_RETRY, turn=2, body="{2}")]),
    ],
    silent=[
        Ledger([_JOB, _POST, replace(_FAILED, status=307, failed=False), replace(_AGAIN, url="http://h/b")]),
        Ledger([_JOB, _POST, replace(_FAILED, failed=False), _AGAIN]),
        Ledger([_JOB, replace(_POST, key=""), _FAILED, replace(_AGAIN, key="")]),
    ],
    idle=[
        Ledger([_JOB, _POST, _FAILED]),
        Ledger([_JOB, replace(_POST, key=""), _FAILED, _AGAIN]),
        Ledger([*_TURN[:1], replace(_ASKED, headers={}), *_TURN[2:], replace(_RETRY, headers={})]),
    ],
)
