"""A run that is cancelled ends as cancelled, and not as a success, a timeout or an ordinary failure."""

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
    RunEnded,
    RunStarted,
    StopRequested,
    StreamCompleted,
    ToolCancelled,
    ToolFinished,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """What had its answer already when the cancel came may still return it."""
    for stop in reading.cancels(ledger):
        for end in _ends(ledger, stop):
            yield exercised(stop, end)
            if not reading.is_cancellation(end):
                said = f"error_type={end.error_type or 'none'} error={reading.brief(end.error)}"
                kind = "run" if isinstance(end, RunEnded) else "fetch"
                yield violated(
                    f"{kind} ended how={end.how} {said}, cancelled at={stop.at or 'any'}", stop, end
                )


def _ends(ledger: Ledger, stop: StopRequested) -> Iterator[RunEnded | FetchEnded]:
    """What the cancel had to end: fetch calls that were under way, or else the run."""
    if reading.fetches(ledger):
        yield from _fetches(ledger, stop)
        return
    end = reading.end_of_run(ledger, stop)
    if end is None or end.how in ("exited", "signalled", "killed"):
        return  # a process that went away says nothing of how it took the cancel
    if not (end.how == "returned" and _had_answer(ledger, stop)):
        yield end


def _fetches(ledger: Ledger, stop: StopRequested) -> Iterator[FetchEnded]:
    """A thread is told before the stop is on record, so that its call may be over by then."""
    told = [end for end in ledger.before(stop, FetchEnded) if reading.is_cancellation(end)]
    if told:
        yield from told
        return
    for start, end in reading.open_fetches(ledger, stop):
        if end is not None and not _was_answered(ledger, start, stop):
            yield end


def _was_answered(ledger: Ledger, start: FetchStarted, stop: StopRequested) -> bool:
    return any(start.seq < answer.seq and not answer.failed for answer in ledger.before(stop, HttpAnswered))


def _had_answer(ledger: Ledger, stop: StopRequested) -> bool:
    """Whether the model had said its last word before the cancel came."""
    whole = {completed.stream for completed in ledger.before(stop, StreamCompleted)}
    return any(reply.stream in whole for reply in ledger.of(ReplyStarted, finish="stop"))


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9")
_STOP = StopRequested(witness=Witness.RUNNER, at="request")
_ENDED = RunEnded(witness=Witness.RUNNER, how="cancelled", error_type="asyncio.exceptions.CancelledError")
_RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="final-n9")
_RAISED = RunEnded(witness=Witness.RUNNER, how="raised", error="failed", error_type="app.AgentError")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_SWALLOWED = ToolCancelled(witness=Witness.TOOL_SPY, tool="record", invocation="i1", swallowed=True)
_DONE = ToolFinished(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_IN_TOOL = [_JOB, _RUN, replace(_STOP, at="tool"), _SWALLOWED, _DONE]
_WHOLE = [
    ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="stop"),
    StreamCompleted(witness=Witness.ENDPOINT, stream="s1"),
]
_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="slow")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:80/slow")
_GONE = FetchEnded(witness=Witness.RUNNER, call="f1", how="cancelled")
_REFUSED = replace(_GONE, call="f2", how="raised", error_type="app.NothingLeft")
_BACK = replace(_GONE, how="returned", result="ok")
_ANSWERED = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", status=200)
_GROUP = replace(
    _RAISED, error_type="ExceptionGroup", error_chain=("ExceptionGroup", "framework.RunCancelled")
)

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A cancel that comes out as a failure is tried again, and one that comes out as a success is "
        "believed; either way the user's stop is lost."
    ),
    source="requirements A03, B09, B15",
    remedy=(
        "Let cancellations pass: no `except BaseException` and no bare `except` around awaits, none of "
        "them turned into a result for the model; run tools in tasks of their own, so that one which "
        "swallows a cancel swallows only its own."
    ),
    occasion="a cancel before the run, or the fetch call, had its answer",
    holds=[
        Ledger([_JOB, _STOP, _ENDED]),
        Ledger([*_IN_TOOL, _ENDED]),
        Ledger([_JOB, _ASKED, _ARRIVED, _STOP, _GONE]),
        Ledger([_JOB, _STOP, replace(_RAISED, error_type="KeyboardInterrupt")]),
    ],
    breaks=[
        Ledger([_JOB, _STOP, _RETURNED]),
        Ledger([_JOB, _STOP, _RAISED]),
        Ledger([_JOB, _STOP, replace(_RAISED, error_type="TimeoutError")]),
        Ledger([_JOB, _STOP, replace(_RAISED, how="limited", error="deadline reached")]),
        Ledger([*_IN_TOOL, _RETURNED]),
        Ledger([_JOB, _ASKED, _ARRIVED, _STOP, _ANSWERED, _BACK]),
        Ledger([_JOB, _ASKED, _ARRIVED, _STOP, replace(_GONE, how="raised", error_type="FetchFailed")]),
    ],
    silent=[
        Ledger([_JOB, _STOP, replace(_RAISED, error_type="framework.UserAborted")]),
        Ledger([_JOB, _STOP, replace(_RAISED, error_type="SystemExit")]),
        Ledger([_JOB, _STOP, replace(_RAISED, error_type="BaseExceptionGroup")]),
        Ledger([_JOB, _STOP, _GROUP]),
        Ledger([_JOB, _STOP, replace(_RAISED, how="failed", error="cancelled by the user")]),
        Ledger([_JOB, _ENDED, _STOP]),
        Ledger([_JOB, _ASKED, _ARRIVED, _GONE, replace(_ASKED, call="f2"), _STOP, _REFUSED]),
        Ledger([_JOB, *_WHOLE, _STOP, _RETURNED]),
        Ledger([_JOB, _ASKED, _ARRIVED, _ANSWERED, _STOP, _BACK]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _RETURNED]),
        Ledger([_JOB, replace(_STOP, by="deadline"), _RAISED]),
        Ledger([_JOB, _STOP, replace(_RAISED, how="killed")]),
        Ledger([_JOB, _STOP, replace(_RAISED, how="signalled", code=2)]),
    ],
)
