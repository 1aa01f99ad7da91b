"""A provider that asks for a longer wait than the run has does not keep it waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    Event,
    FetchEnded,
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    Witness,
)

_PATIENCE = (10.0, 5.0)  # times the deadline, or seconds: as long as a held response is held


def check(ledger: Ledger) -> Iterator[Finding]:
    """A run that the runner had to kill has slept on; so has one that went on long after its deadline."""
    for attempt, later in reading.followed(ledger):
        run = reading.run_of(ledger, attempt.asked)
        deadline = reading.declared(run, "deadline")
        if run is None or deadline is None or attempt.retry_after is None or attempt.retry_after <= deadline:
            continue
        sign = _went_on(ledger, attempt, later)
        if sign is None:
            continue
        yield exercised(*attempt.evidence, sign)
        killed = isinstance(sign, RunEnded) and sign.how == "killed"
        late = sign.t - run.t if sign.t and run.t else 0.0
        if killed or late > max(_PATIENCE[0] * deadline, _PATIENCE[1]):
            after = "killed by the runner" if killed else f"went on after={late:.1f} s"
            yield violated(
                f"{after}, retry_after={attempt.retry_after:g} s deadline={deadline:g} s",
                *attempt.evidence, sign,
            )  # fmt: skip


def _went_on(ledger: Ledger, attempt: reading.Attempt, later: reading.Attempt | None) -> Event | None:
    """The first sign that the run did not sleep, or slept no longer."""
    over = reading.outcome_of(ledger, attempt.asked)
    call = ledger.first_after(attempt.asked, FetchEnded, call=attempt.call) if attempt.call else None
    signs: list[Event] = [sign for sign in (over, call) if sign is not None]
    signs += [later.asked] if later is not None else []
    return min(signs, key=lambda sign: sign.seq, default=None)


_JOB = RunStarted(witness=Witness.RUNNER, limits={"deadline": 0.5}, t=1.0)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, t=1.1)
_REPLY = ReplyStarted(
    witness=Witness.ENDPOINT, stream="s1", request="r1", status=429, fault="status-429", retry_after=3600.0
)
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_LIMITED = [_JOB, _ASKED, _REPLY, _END]
_RAISED = RunEnded(witness=Witness.RUNNER, how="raised", error="rate limit", t=1.6)
_KILLED = replace(_RAISED, how="killed", t=9.0)
_AGAIN = replace(_ASKED, request="r2", t=1.4)
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/report", t=1.1)
_BUSY = HttpAnswered(
    witness=Witness.COUNTING_SERVER, request="h1", status=503, failed=True, retry_after=3600.0
)

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="One header of an overloaded or hostile server puts an agent to sleep for an hour, or for a year.",
    source="wire facts §4.1: a Retry-After of 3600 is obeyed without a cap by one SDK",
    remedy="Where the wait that is asked for does not fit into what is left of the run, fail at once.",
    occasion="a Retry-After that is longer than the run's declared deadline",
    holds=[
        Ledger([*_LIMITED, _RAISED]),
        Ledger([*_LIMITED, _AGAIN, _RAISED]),
        Ledger([_JOB, _HTTP, _BUSY, _RAISED]),
    ],
    breaks=[
        Ledger([*_LIMITED, _KILLED]),
        Ledger([*_LIMITED, replace(_RAISED, t=7.0)]),
        Ledger([*_LIMITED, replace(_AGAIN, t=7.0)]),
        Ledger([_JOB, _HTTP, _BUSY, _KILLED]),
    ],
    silent=[
        Ledger([*_LIMITED, replace(_RAISED, t=3.0)]),
        Ledger([*_LIMITED, replace(_RAISED, t=0.0)]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={}), *_LIMITED[1:], _KILLED]),
        Ledger([_JOB, _ASKED, replace(_REPLY, retry_after=0.2), _END, _KILLED]),
        Ledger(_LIMITED),
    ],
)
