"""A tool that blocks does not stop the other runs of the same process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, violated
from pytest_agentguard.events import (
    Event,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    ToolCancelled,
    ToolFinished,
    ToolStarted,
    Witness,
)

_APART = 0.2  # s between the planned ends of two replies: a tool that runs through both takes that long


def check(ledger: Ledger) -> Iterator[Finding]:
    """Two answers that were planned to end one well after the other show that time went by in the tool.

    In between, the run with the first of the two had everything that it needed to go on.
    """
    lanes = ledger.by_lane()
    for lane, part in lanes.items():
        others = {name: other for name, other in lanes.items() if name != lane}
        for start in part.of(ToolStarted):
            over = _end_of(part, start)
            if over is not None and others:
                yield from _meanwhile(start, over, others)


def _end_of(part: Ledger, start: ToolStarted) -> Event | None:
    return part.first_after(start, ToolFinished, invocation=start.invocation) or part.first_after(
        start, ToolCancelled, invocation=start.invocation
    )


def _meanwhile(start: ToolStarted, over: Event, others: dict[str, Ledger]) -> Iterator[Finding]:
    """Of the answers that were whole while the tool ran: was any of them taken?"""
    whole = [
        (reply, end, part)
        for part in others.values()
        for end in part.of(StreamEnded, complete=True)
        if start.seq < end.seq < over.seq
        for reply in part.of(ReplyStarted, stream=end.stream)
        if reply.seq < start.seq
    ]
    if not whole:
        return
    first = min(whole, key=lambda found: found[1].seq)
    last = max(whole, key=lambda found: found[1].seq)
    if last[0].paused - first[0].paused < _APART or first[0].seq > last[0].seq:
        return
    steps = [step for _, end, part in whole if (step := _step(part, end, over)) is not None]
    yield exercised(start, first[1], over)
    if not steps:
        yield violated(
            f"tool={start.tool} lane={start.lane} froze runs={len({r.lane for r, _, _ in whole})}: "
            f"lane={first[1].lane} had its answer and made no step",
            start, first[1], last[1], over,
        )  # fmt: skip


def _step(part: Ledger, end: StreamEnded, over: Event) -> Event | None:
    """What the other run did with its answer before the tool was over."""
    for kind in (RequestReceived, ToolStarted, RunEnded):
        step = part.first_after(end, kind)
        if step is not None and step.seq < over.seq:
            return step
    return None


def _beside(name: str, paused: float) -> tuple[ReplyStarted, StreamEnded, RunEnded]:
    """Start, end and outcome of a run beside the tool."""
    reply = ReplyStarted(
        witness=Witness.ENDPOINT,
        lane=name,
        stream=f"{name}1",
        request=f"{name}r1",
        finish="stop",
        paused=paused,
    )
    end = StreamEnded(witness=Witness.ENDPOINT, lane=name, stream=f"{name}1", complete=True)
    return reply, end, RunEnded(witness=Witness.RUNNER, lane=name, how="returned", answer="done")


_JOB = RunStarted(witness=Witness.RUNNER, lane="a")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, lane="a", tool="record", invocation="i1")
_DONE = ToolFinished(witness=Witness.TOOL_SPY, lane="a", tool="record", invocation="i1")
_B, _B_END, _B_OVER = _beside("b", 0.3)
_C, _C_END, _C_OVER = _beside("c", 0.6)
_ALIKE = replace(_C, paused=0.35)
_BEGUN = [_JOB, _B, _C, _RUN]

INVARIANT = Invariant(
    check,
    level=Level.MAY,
    why="On a loop that stands still nothing goes on: no other conversation, no timeout, no cancel.",
    source="requirements A43, B15",
    remedy="Run a synchronous tool in a thread of its own, and await that.",
    occasion="a tool that ran while two other runs had their answers, well after each other",
    holds=[
        Ledger([*_BEGUN, _B_END, _B_OVER, _C_END, _DONE, _C_OVER]),
        Ledger([*_BEGUN, _B_END, _C_END, _B_OVER, _C_OVER, _DONE]),
    ],
    breaks=[Ledger([*_BEGUN, _B_END, _C_END, _DONE, _B_OVER, _C_OVER])],
    silent=[
        Ledger([*_BEGUN, _B_END, _DONE, _B_OVER, _C_END, _C_OVER]),
        Ledger([_JOB, _B, _ALIKE, _RUN, _B_END, _C_END, _DONE, _B_OVER, _C_OVER]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _RUN, _DONE]),
        Ledger([_JOB, _RUN, _B, _C, _B_END, _C_END, _DONE, _B_OVER, _C_OVER]),
    ],
    across_lanes=True,
)
