"""A deadline ends the whole run, whatever its requests do, and clean-up is over when the run is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    ClientClosed,
    FetchEnded,
    FetchStarted,
    HttpReceived,
    RunEnded,
    RunStarted,
    StopRequested,
    StreamHeld,
    StreamReleased,
    ToolCancelled,
    ToolFinished,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """The witness is a response that only the deadline can have ended, and that is let go long after it."""
    for held in ledger.of(StreamHeld):
        deadline, run = _only_deadline(ledger, held), reading.run_of(ledger, held)
        shown = _shown(ledger, held, deadline, run) if deadline is not None and run is not None else None
        if shown is None:
            continue
        yield exercised(held, shown)
        if isinstance(shown, StreamReleased):
            yield violated(
                f"run not ended at release, stream={held.stream} why={held.why} deadline={deadline:g}",
                held, shown,
            )  # fmt: skip
    for end in ledger.of(RunEnded):
        yield from _cleaned_up(ledger, end)


def _only_deadline(ledger: Ledger, held: StreamHeld) -> float | None:
    """The deadline, where no shorter limit ends this wait; a drip under nothing else is for trickle-ends."""
    limits = dict(reading.waits_under(ledger, held))
    deadline = limits.pop("deadline", None)
    if deadline is None or held.why == "keep-open" or any(limit <= deadline for limit in limits.values()):
        return None
    idle = reading.limit_of(ledger, held, "idle_timeout")
    return None if held.why == "drip" and not limits and idle is None else deadline


def _shown(
    ledger: Ledger, held: StreamHeld, deadline: float, run: RunStarted
) -> RunEnded | StreamReleased | None:
    """The end of the run or the release, whichever came first; None where neither shows anything."""
    end, released = reading.outcome_of(ledger, held), reading.release_of(ledger, held)
    cancel = ledger.first_after(held, StopRequested, by="cancel")
    if released is not None and reading.is_at_limit(released, deadline, run):
        is_stopped = cancel is not None and cancel.seq < released.seq
        if not is_stopped and (end is None or released.seq < end.seq):
            return released if _is_last(ledger, held, released, end) else None
    if end is None or cancel is not None or end.how in ("killed", "cancelled", "exited", "signalled"):
        return None
    return end


def _is_last(ledger: Ledger, held: StreamHeld, released: StreamReleased, end: RunEnded | None) -> bool:
    """Whether the run was seen to go on: without a runner, only the attempt itself can show it."""
    if end is not None:
        return True
    given_up = reading.given_up(ledger, held)
    return given_up is None or released.seq < given_up.seq


def _cleaned_up(ledger: Ledger, end: RunEnded) -> Iterator[Finding]:
    """A tool that the deadline cancelled has cleaned up before the run is over."""
    run = reading.run_of(ledger, end)
    if run is None or not _has_deadline(ledger, end) or end.how == "killed":
        return
    if any(run.seq < stop.seq and stop.by == "cancel" for stop in ledger.before(end, StopRequested)):
        return
    for start in ledger.before(end, ToolStarted):
        cancelled = ledger.first_after(start, ToolCancelled, invocation=start.invocation)
        finished = ledger.first_after(start, ToolFinished, invocation=start.invocation)
        over = cancelled or finished
        if start.seq < run.seq or over is None or (cancelled is None and over.seq < end.seq):
            continue
        yield exercised(start, over, end)
        if end.seq < over.seq:
            facts = f"tool={start.tool} {'cancelled' if cancelled else 'finished'} after the run had ended"
            yield violated(f"{facts}, how={end.how}", start, end, over)


def _has_deadline(ledger: Ledger, end: RunEnded) -> bool:
    return reading.limit_of(ledger, end, "deadline") is not None


_JOB = RunStarted(witness=Witness.RUNNER, limits={"request_timeout": 2.0, "deadline": 0.35})
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", why="hold")
_CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
_RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="limit")
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="deadline")
_FREED = replace(_RELEASED, by="run-ended")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", invocation="i1")
_CANCELLED = ToolCancelled(witness=Witness.TOOL_SPY, tool="pay", invocation="i1")
_DONE = ToolFinished(witness=Witness.TOOL_SPY, tool="pay", invocation="i1")
_STOP = StopRequested(witness=Witness.RUNNER)

_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="slow")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="s1", url="http://127.0.0.1:80/slow")
_FAILED = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="timed out")
_FETCH = [_JOB, _ASKED, _ARRIVED, _HELD, _CLOSED, _FAILED]
_SHORT = replace(_JOB, limits={"request_timeout": 0.25, "deadline": 0.35})
_DRIP = replace(_HELD, why="drip")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "Every attempt has its timeout, and each starts a new one: without a deadline over all of them a run "
        "lasts as long as the server likes."
    ),
    source="wire facts §4.2; requirements A16, B08",
    remedy=(
        "Put the run under one deadline that no attempt restarts, cancel what is under way when it passes, "
        "and wait for its clean-up before saying that the run is over."
    ),
    occasion=(
        "a declared deadline, and a held response that no shorter timeout ends or a tool that was cut short"
    ),
    holds=[
        Ledger([_JOB, _HELD, _CLOSED, _ENDED]),
        Ledger([_JOB, _HELD, _ENDED, _FREED]),
        Ledger([*_FETCH, replace(_ENDED, how="returned"), _FREED]),
        Ledger([_JOB, _RUN, _CANCELLED, _ENDED]),
        Ledger([replace(_JOB, limits={"idle_timeout": 0.2, "deadline": 1.0}), _DRIP, _CLOSED, _ENDED]),
    ],
    breaks=[
        Ledger([_JOB, _HELD, _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, _RELEASED, replace(_ENDED, how="killed")]),
        Ledger([*_FETCH, _RELEASED, replace(_ENDED, how="returned")]),
        Ledger([_JOB, _RUN, _ENDED, _CANCELLED]),
        Ledger([_JOB, _RUN, _ENDED, _DONE]),
        Ledger([replace(_JOB, limits={"idle_timeout": 0.2, "deadline": 1.0}), _DRIP, _RELEASED, _ENDED]),
    ],
    silent=[
        Ledger([_JOB, _HELD, _ENDED, _RELEASED]),
        Ledger([_JOB, _HELD, replace(_RELEASED, by="test"), _ENDED]),
        Ledger([replace(_JOB, t=1.0), _HELD, replace(_RELEASED, t=1.2), _ENDED]),
        Ledger([_JOB, _RUN, _DONE, _ENDED]),
        Ledger([_JOB, _HELD, _STOP, _RELEASED, _ENDED]),
    ],
    idle=[
        Ledger(),
        Ledger([replace(_JOB, limits={"request_timeout": 0.25}), _HELD, _RELEASED, _ENDED]),
        Ledger([_SHORT, _HELD, _CLOSED, _ENDED]),
        Ledger([_JOB, _HELD, replace(_ENDED, how="killed"), _FREED]),
        Ledger([replace(_JOB, limits={"deadline": 1.0}), _DRIP, _RELEASED, _ENDED]),
        Ledger([_JOB, _RUN, _STOP, _ENDED, _CANCELLED]),
    ],
)
