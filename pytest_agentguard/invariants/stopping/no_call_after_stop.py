"""After a stop no request is made and no tool starts."""

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
    RequestReceived,
    RunEnded,
    RunStarted,
    StopRequested,
    StreamHeld,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A stop is on record once everything sent before it has been read, so what is later came after it."""
    for stop in reading.stops(ledger):
        yield exercised(stop)
        for call in reading.calls_after(ledger, stop):
            facts = f"{_shown(call)} after stop by={stop.by} at={stop.at or 'any'}"
            yield violated(f"{facts}{_asked_by(ledger, stop, call)}", stop, call)
    for held, end in reading.timeouts(ledger):
        if isinstance(end, RunEnded):
            yield exercised(held, end)
            for start in ledger.after(end, ToolStarted):
                if reading.run_of(ledger, start) == reading.run_of(ledger, end):
                    yield violated(f"{_shown(start)} after a timeout had ended the run", held, end, start)
        elif _is_spent(ledger, end):
            yield exercised(held, end)
            for request in ledger.after(end, HttpReceived):
                yield violated(f"{_shown(request)} after a timeout had spent the budget", held, end, request)


def _is_spent(ledger: Ledger, end: FetchEnded) -> bool:
    """Whether the call that timed out was the last one that its budget allowed."""
    allowed = reading.limit_of(ledger, end, "attempts")
    return allowed is not None and len(ledger.before(end, HttpReceived)) >= allowed


def _asked_by(ledger: Ledger, stop: StopRequested, call: Event) -> str:
    """Whether it came of a use of a fetch tool that began after the stop, or of one that was under way."""
    found = reading.fetch_of(ledger, call)
    if found is None:
        return ""
    made = "made after it" if stop.seq < found[0].seq else "under way then"
    return f", sent by call={found[0].call}, {made}"


def _shown(call: Event) -> str:
    match call:
        case ToolStarted():
            return f"tool={call.tool} started"
        case RequestReceived():
            return f"request={call.request} turn={call.turn} arrived"
        case HttpReceived():
            return f"request={call.request} url={call.url} arrived"
    raise AssertionError(call)


_JOB = RunStarted(witness=Witness.RUNNER)
_FIRST = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1)
_STOP = StopRequested(witness=Witness.RUNNER, at="request")
_CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
_AGAIN = replace(_FIRST, request="r2")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_ENDED = RunEnded(witness=Witness.RUNNER, how="cancelled")

_LIMITED = RunStarted(witness=Witness.RUNNER, limits={"request_timeout": 0.25, "attempts": 1})
_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="slow")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:80/slow")
_HELD = StreamHeld(witness=Witness.COUNTING_SERVER, stream="h1", hold="h1", why="hold")
_FAILED = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="timed out")
_MORE = [replace(_ASKED, call="f2"), replace(_FAILED, call="f2", error="not allowed")]
_TIMED = [_LIMITED, _FIRST, replace(_HELD, witness=Witness.ENDPOINT, stream="s1"), _CLOSED]
_RAISED = replace(_ENDED, how="raised", error="timed out")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="Who presses stop means it: a tool that starts afterwards deletes what the user wanted to save.",
    source="requirements B07, B09",
    remedy=(
        "Put the stop on record before anything is cancelled, and look at it before every request and every "
        "tool; a cancel that something swallows must still be seen there."
    ),
    occasion="a cancel, a deadline that has passed, or a timeout after which nothing more is allowed",
    holds=[
        Ledger([_JOB, _FIRST, _STOP, _CLOSED, _ENDED]),
        Ledger([_JOB, _RUN, replace(_STOP, at="tool"), _ENDED]),
        Ledger([_LIMITED, _ASKED, _ARRIVED, _HELD, _FAILED, *_MORE]),
        Ledger([*_TIMED, _RAISED]),
    ],
    breaks=[
        Ledger([_JOB, _FIRST, _STOP, _AGAIN, _ENDED]),
        Ledger([_JOB, _FIRST, _STOP, _ENDED, _AGAIN]),
        Ledger([_JOB, _FIRST, _STOP, _RUN, _ENDED]),
        Ledger([_JOB, _ASKED, _ARRIVED, replace(_STOP, by="deadline"), replace(_ARRIVED, request="h2")]),
        Ledger(
            [_LIMITED, _ASKED, _ARRIVED, _HELD, _FAILED, _MORE[0], replace(_ARRIVED, request="h2"), _MORE[1]]
        ),
        Ledger([*_TIMED, _RAISED, _RUN]),
    ],
    silent=[
        Ledger([_JOB, _FIRST, _AGAIN, _RUN, _STOP, _ENDED]),
        Ledger([_JOB, _FIRST, _STOP, _ENDED, replace(_STOP, again=True)]),
        Ledger([_JOB, _STOP, _ENDED, _JOB, _FIRST, _RUN]),
        Ledger([_JOB, _ASKED, _ARRIVED, replace(_STOP, by="deadline"), _FAILED]),
        Ledger([*_TIMED, _AGAIN, _RAISED]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _FIRST, _AGAIN, _RUN, replace(_ENDED, how="returned")]),
        Ledger(
            [replace(_LIMITED, limits={"request_timeout": 0.25}), _ASKED, _ARRIVED, _HELD, _FAILED, *_MORE]
        ),
    ],
)
