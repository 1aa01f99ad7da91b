"""A tool that blocks does not stop the other runs of the same process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    Event,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    ToolCancelled,
    ToolFinished,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A response that was held until its own limit, all within the tool, shows that time went by in it.

    A run that had its whole answer before that hold began had everything that it needed to go on.
    """
    lanes = ledger.by_lane()
    for lane, part in lanes.items():
        others = [other for name, other in lanes.items() if name != lane]
        for start in part.of(ToolStarted):
            over = _end_of(part, start)
            if over is not None and others:
                yield from _meanwhile(start, over, others)


def _end_of(part: Ledger, start: ToolStarted) -> Event | None:
    return part.first_after(start, ToolFinished, invocation=start.invocation) or part.first_after(
        start, ToolCancelled, invocation=start.invocation
    )


def _meanwhile(start: ToolStarted, over: Event, others: Sequence[Ledger]) -> Iterator[Finding]:
    """Of the answers that were whole while the tool ran: was any of them taken?"""
    hold = max(_holds(start, over, others), key=lambda hold: hold[0].seq, default=None)
    if hold is None:
        return
    whole = [
        (end, part)
        for part in others
        for end in part.of(StreamEnded, complete=True)
        if start.seq < end.seq < hold[0].seq
    ]
    if not whole:
        return
    first = whole[0][0]
    yield exercised(start, first, *hold, over)
    if not any(_steps(part, end, over) for end, part in whole):
        yield violated(
            f"tool={start.tool} lane={start.lane} froze lane={first.lane}: "
            f"it had its answer, stream={first.stream}, and made no step",
            start, first, *hold, over,
        )  # fmt: skip


def _holds(
    start: Event, over: Event, others: Sequence[Ledger]
) -> Iterator[tuple[StreamHeld, StreamReleased]]:
    """Holds that began and came to their own limit while the tool ran."""
    for part in others:
        for held in part.of(StreamHeld):
            released = reading.release_of(part, held)
            if (
                released is not None
                and released.by == "limit"
                and start.seq < held.seq < released.seq < over.seq
            ):
                yield held, released


def _steps(part: Ledger, end: StreamEnded, over: Event) -> bool:
    """Whether the other run did something with its answer before the tool was over."""
    steps = (part.first_after(end, kind) for kind in (RequestReceived, ToolStarted, RunEnded))
    return any(step is not None and step.seq < over.seq for step in steps)


_JOB = RunStarted(witness=Witness.RUNNER, lane="a")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, lane="a", tool="record", invocation="i1")
_DONE = ToolFinished(witness=Witness.TOOL_SPY, lane="a", tool="record", invocation="i1")
_WHOLE = StreamEnded(witness=Witness.ENDPOINT, lane="b", stream="b1", complete=True)
_TAKEN = RunEnded(witness=Witness.RUNNER, lane="b", how="returned", answer="done")
_HELD = StreamHeld(witness=Witness.ENDPOINT, lane="c", stream="c1", hold="h1", why="hold")
_FREED = StreamReleased(witness=Witness.ENDPOINT, lane="c", stream="c1", hold="h1", by="limit")

INVARIANT = Invariant(
    check,
    level=Level.MAY,
    why="On a loop that stands still nothing goes on: no other conversation, no timeout, no cancel.",
    source="requirements A43, B15",
    remedy="Run a synchronous tool in a thread of its own, and await that.",
    occasion="a tool that ran while another run had its answer, and for some time after that",
    holds=[
        Ledger([_JOB, _RUN, _WHOLE, _TAKEN, _HELD, _FREED, _DONE]),
        Ledger([_JOB, _RUN, _WHOLE, _HELD, _FREED, _TAKEN, _DONE]),
    ],
    breaks=[Ledger([_JOB, _RUN, _WHOLE, _HELD, _FREED, _DONE, _TAKEN])],
    silent=[
        Ledger([_JOB, _RUN, _WHOLE, _HELD, _DONE, _TAKEN, _FREED]),
        Ledger([_JOB, _RUN, _HELD, _FREED, _WHOLE, _DONE, _TAKEN]),
        Ledger([_JOB, _RUN, _WHOLE, _HELD, replace(_FREED, by="client-closed"), _DONE, _TAKEN]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _RUN, _DONE]),
        Ledger([_JOB, _RUN, _WHOLE, _DONE, _TAKEN]),
    ],
    across_lanes=True,
)
