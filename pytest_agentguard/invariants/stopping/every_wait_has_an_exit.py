"""A wait that is blocked ends by a way out that was declared: its timeout, the deadline, or a cancel."""

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
    StreamReleased,
    ToolCancelled,
    ToolFinished,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Kinds of wait: for a model, for a fetched page, in a tool. A tool that blocks is waited for."""
    for held in ledger.of(StreamHeld):
        if held.why != "keep-open":
            yield from _response(ledger, held)
    for stop in reading.cancels(ledger):
        yield from _after_cancel(ledger, stop)


def _response(ledger: Ledger, held: StreamHeld) -> Iterator[Finding]:
    kind = "fetch" if held.witness is Witness.COUNTING_SERVER else "chat"
    limits = reading.waits_under(ledger, held)
    cancel = ledger.first_after(held, StopRequested, by="cancel")
    released = reading.release_of(ledger, held)
    if cancel is not None and _is_cancelled(ledger, held, cancel, released):
        yield from _by_cancel(ledger, held, cancel, released, kind)
    elif limits:
        shown = reading.settled(ledger, held, min(limits.values()), held)
        if shown is not None:
            yield exercised(held, shown)
        if isinstance(shown, StreamReleased):
            ways = " ".join(f"{name}={limit:g}" for name, limit in limits.items())
            yield violated(f"wait={kind} not ended by {ways}, stream={held.stream}", held, shown)


def _is_cancelled(
    ledger: Ledger, held: StreamHeld, cancel: StopRequested, released: StreamReleased | None
) -> bool:
    """Whether the cancel met this wait; a thread is told of it a moment before it is on record."""
    if released is None or cancel.seq < released.seq:
        return True
    asked = [*ledger.after(held, RequestReceived), *ledger.after(held, HttpReceived)]
    return released.by == "client-closed" and not any(request.seq < cancel.seq for request in asked)


def _by_cancel(
    ledger: Ledger, held: StreamHeld, cancel: StopRequested, released: StreamReleased | None, kind: str
) -> Iterator[Finding]:
    """The wait has to be over before the held response is let go at its own limit."""
    signs: list[Event | None] = [
        ledger.first_after(held, ClientClosed, stream=held.stream),
        ledger.first_after(cancel, FetchEnded),
        ledger.first_after(cancel, RunEnded),
    ]
    sign = min((sign for sign in signs if sign is not None), key=lambda sign: sign.seq, default=None)
    if released is not None and released.by == "limit" and (sign is None or released.seq < sign.seq):
        yield exercised(held, cancel, released)
        yield violated(
            f"wait={kind} not ended by cancel at={cancel.at or 'any'}, stream={held.stream}",
            held, cancel, released,
        )  # fmt: skip
    elif sign is not None and not (isinstance(sign, RunEnded) and sign.how == "killed"):
        yield exercised(held, cancel, sign)


def _after_cancel(ledger: Ledger, stop: StopRequested) -> Iterator[Finding]:
    """A run that was cancelled ends, and so do its tools."""
    end = reading.end_of_run(ledger, stop)
    if end is not None and end.how == "killed":
        yield exercised(stop, end)
        yield violated(f"run not ended by cancel at={stop.at or 'any'}, how={end.how}", stop, end)
        return
    for start in ledger.before(stop, ToolStarted):
        finished = ledger.first_after(start, ToolFinished, invocation=start.invocation)
        cancelled = ledger.first_after(stop, ToolCancelled, invocation=start.invocation)
        if cancelled is not None and (finished is None or cancelled.seq < finished.seq):
            yield exercised(start, stop, cancelled)


_LIMITED = RunStarted(witness=Witness.RUNNER, limits={"request_timeout": 0.25})
_JOB = RunStarted(witness=Witness.RUNNER)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1")
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", why="hold")
_RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="limit")
_CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
_STOP = StopRequested(witness=Witness.RUNNER, at="request")
_RAISED = RunEnded(witness=Witness.RUNNER, how="raised", error="timed out")
_CANCELLED = RunEnded(witness=Witness.RUNNER, how="cancelled")
_KILLED = RunEnded(witness=Witness.RUNNER, how="killed", error="still running after 20 s")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_TOOL_CANCELLED = ToolCancelled(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_DONE = ToolFinished(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_CALLED = FetchStarted(witness=Witness.RUNNER, call="f1", input="slow")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="s1", url="http://127.0.0.1:80/slow")
_FETCH = [_CALLED, _ARRIVED, replace(_HELD, witness=Witness.COUNTING_SERVER)]
_GONE = FetchEnded(witness=Witness.RUNNER, call="f1", how="cancelled")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="A wait without a way out is ended by killing the program, and everything else in it as well.",
    source="requirements B09, B15, C10",
    remedy="Give every wait a timeout, put the run under a deadline, and let a cancel reach each of them.",
    occasion="a response that was held, or a tool that was running, with a declared limit or a cancel",
    holds=[
        Ledger([_LIMITED, _ASKED, _HELD, _CLOSED, _RAISED]),
        Ledger([_JOB, _ASKED, _HELD, _STOP, _CLOSED, _CANCELLED]),
        Ledger([_JOB, _ASKED, _HELD, _CLOSED, replace(_RELEASED, by="client-closed"), _STOP, _CANCELLED]),
        Ledger([_JOB, *_FETCH, _STOP, _GONE]),
        Ledger([_JOB, _RUN, _STOP, _TOOL_CANCELLED, _CANCELLED]),
    ],
    breaks=[
        Ledger([_LIMITED, _ASKED, _HELD, _RELEASED, _RAISED]),
        Ledger([_JOB, _ASKED, _HELD, _STOP, _RELEASED, _CLOSED, _CANCELLED]),
        Ledger([_JOB, *_FETCH, _STOP, _RELEASED, _GONE]),
        Ledger([_JOB, _ASKED, _HELD, _STOP, _CLOSED, _KILLED]),
    ],
    silent=[
        Ledger([_LIMITED, _ASKED, _HELD, _CLOSED, _RELEASED, _RAISED]),
        Ledger([_LIMITED, _ASKED, _HELD, replace(_RELEASED, by="test"), _RAISED]),
        Ledger([_JOB, _RUN, replace(_STOP, at="tool"), _DONE, _CANCELLED]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _ASKED, _HELD, _RELEASED, _RAISED]),
        Ledger([_LIMITED, _ASKED, replace(_HELD, why="keep-open"), _RELEASED, _RAISED]),
        Ledger([_LIMITED, _ASKED, _HELD, _KILLED]),
    ],
)
