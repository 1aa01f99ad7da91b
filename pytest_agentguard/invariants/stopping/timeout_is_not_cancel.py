"""A timeout does not come out as a cancel, and a cancel not as a timeout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    ClientClosed,
    Event,
    FetchEnded,
    FetchStarted,
    HttpReceived,
    RunEnded,
    RunStarted,
    StopRequested,
    StreamHeld,
    StreamReleased,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Nobody cancelled a run that has no stop on record; nothing timed out where no limit can have passed."""
    for held, end in reading.timeouts(ledger):
        yield exercised(held, end)
        if end.how == "cancelled" or _is_named_cancel(end):
            facts = f"how={end.how} error_type={end.error_type or 'none'}"
            yield violated(f"a timeout came out as a cancel, {facts} stream={held.stream}", held, end)
    for stop in reading.cancels(ledger):
        for end in _ends(ledger, stop):
            yield exercised(stop, end)
            if reading.is_timeout(end) and not _may_be_due(ledger, stop):
                facts = f"how={end.how} error_type={end.error_type or 'none'}"
                yield violated(f"a cancel came out as a timeout, {facts} at={stop.at or 'any'}", stop, end)


def _is_named_cancel(end: RunEnded | FetchEnded) -> bool:
    name = (end.error_type or "").rpartition(".")[2].lower()
    return end.how == "raised" and "cancel" in name and not reading.is_timeout(end)


def _ends(ledger: Ledger, stop: StopRequested) -> Iterator[RunEnded | FetchEnded]:
    """The ends that a cancel brought about; a thread is told first, and may end before that is on record."""
    if reading.fetches(ledger):
        yield from (end for _, end in reading.open_fetches(ledger, stop) if end is not None)
        yield from (end for end in ledger.before(stop, FetchEnded) if reading.is_cancellation(end))
        return
    end = reading.end_of_run(ledger, stop)
    if end is not None and end.how in ("cancelled", "raised", "failed", "limited"):
        yield end


def _may_be_due(ledger: Ledger, stop: StopRequested) -> bool:
    """Whether a declared limit can have passed by then: both at once may be told as either."""
    run = reading.run_of(ledger, stop)
    since: Event = run if run is not None else stop
    limits = (
        reading.limit_of(ledger, stop, name) for name in ("idle_timeout", "request_timeout", "deadline")
    )
    return any(limit is not None and stop.t - since.t >= limit for limit in limits)


_JOB = RunStarted(witness=Witness.RUNNER, limits={"request_timeout": 0.25})
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", why="hold")
_CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
_RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="run-ended")
_STOP = StopRequested(witness=Witness.RUNNER, at="request")
_TIMED_OUT = RunEnded(witness=Witness.RUNNER, how="raised", error="too long", error_type="app.RequestTimeout")
_CANCELLED = RunEnded(witness=Witness.RUNNER, how="cancelled", error_type="asyncio.exceptions.CancelledError")
_CONVERTED = replace(
    _TIMED_OUT,
    error_type="TimeoutError",
    error_chain=("TimeoutError", "asyncio.exceptions.CancelledError"),
)
_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="slow")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="s1", url="http://127.0.0.1:80/slow")
_FETCH = [_JOB, _ASKED, _ARRIVED, replace(_HELD, witness=Witness.COUNTING_SERVER)]
_FAILED = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error_type="app.FetchTimeout")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why=(
        "A timeout may be tried again and a cancel must not; who cannot tell them apart does one of the two "
        "wrongly."
    ),
    source="requirements A03, A23",
    remedy=(
        "Raise a timeout of your own where the limit was yours, and let the cancellation pass where it came "
        "from outside."
    ),
    occasion="a wait that ended at a declared time limit, or a cancel",
    holds=[
        Ledger([_JOB, _HELD, _CLOSED, _TIMED_OUT, _RELEASED]),
        Ledger([_JOB, _HELD, _STOP, _CLOSED, _CANCELLED]),
        Ledger([*_FETCH, _FAILED]),
        Ledger([_JOB, _TIMED_OUT, _HELD, _CLOSED]),
        Ledger([_JOB, _ASKED, _ARRIVED, replace(_FAILED, how="cancelled"), _STOP]),
    ],
    breaks=[
        Ledger([_JOB, _HELD, _CLOSED, _CANCELLED, _RELEASED]),
        Ledger([_JOB, _HELD, _STOP, _CLOSED, _TIMED_OUT]),
        Ledger([_JOB, _HELD, _STOP, _CLOSED, replace(_TIMED_OUT, how="limited", error="deadline reached")]),
        Ledger([*_FETCH, replace(_FAILED, how="cancelled", error_type="")]),
        Ledger([*_FETCH, _STOP, _FAILED]),
    ],
    silent=[
        Ledger([_JOB, _HELD, _CLOSED, _CONVERTED, _RELEASED]),
        Ledger([_JOB, _HELD, _CLOSED, replace(_TIMED_OUT, error_type="app.AgentError"), _RELEASED]),
        Ledger([_JOB, _HELD, replace(_STOP, t=9.0), _CLOSED, _TIMED_OUT]),
        Ledger([_JOB, _HELD, _STOP, _CLOSED, replace(_TIMED_OUT, error_type="KeyboardInterrupt")]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _CANCELLED]),
        Ledger([replace(_JOB, limits={}), _HELD, _CLOSED, _CANCELLED]),
        Ledger([_JOB, _HELD, _CLOSED, replace(_TIMED_OUT, how="returned", error=None)]),
    ],
)
