"""When a run ends, by a failure or a cancel, no tool that it had started goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    Event,
    RunEnded,
    RunStarted,
    StopRequested,
    ToolCancelled,
    ToolFinished,
    ToolRaised,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Tool starts and ends, and the end of the run, are written down in the agent's own process."""
    for end in ledger.of(RunEnded):
        trigger = _trigger(ledger, end)
        if trigger is None:
            continue
        for start in ledger.before(trigger, ToolStarted):
            done = ledger.first_after(start, ToolFinished, invocation=start.invocation)
            if reading.run_of(ledger, start) != reading.run_of(ledger, end) or _is_over(
                ledger, start, trigger
            ):
                continue
            yield exercised(start, trigger, end)
            if done is not None and end.seq < done.seq:
                yield violated(
                    f"tool={start.tool} invocation={start.invocation} finished after the run had ended, "
                    f"how={end.how}",
                    start, trigger, end, done,
                )  # fmt: skip


def _trigger(ledger: Ledger, end: RunEnded) -> Event | None:
    """What ended the run: a stop, or a tool whose failure was not told to the model."""
    run = reading.run_of(ledger, end)
    if run is None or end.how == "killed":
        return None
    for stop in reading.stops(ledger):
        if reading.run_of(ledger, stop) == run:
            return stop
    if end.how not in ("raised", "failed", "cancelled", "limited"):
        return None
    return next((failed for failed in ledger.before(end, ToolRaised) if run.seq < failed.seq), None)


def _is_over(ledger: Ledger, start: ToolStarted, trigger: Event) -> bool:
    """Whether the tool had ended in some way when the run was stopped."""
    for kind in (ToolFinished, ToolRaised, ToolCancelled):
        over = ledger.first_after(start, kind, invocation=start.invocation)
        if over is not None and over.seq <= trigger.seq:
            return True
    return False


_JOB = RunStarted(witness=Witness.RUNNER)
_SLOW = ToolStarted(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_BAD = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", invocation="i2")
_FAILED = ToolRaised(witness=Witness.TOOL_SPY, tool="pay", invocation="i2", error="no money")
_CANCELLED = ToolCancelled(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_DONE = ToolFinished(witness=Witness.TOOL_SPY, tool="record", invocation="i1")
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="no money")
_STOP = StopRequested(witness=Witness.RUNNER, at="tool")
_STOPPED = replace(_ENDED, how="cancelled", error="")
_BOTH = [_JOB, _SLOW, _BAD, _FAILED]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="The caller is told that the run is over, and then its tool changes something all the same.",
    source="requirements B09, B15",
    remedy=(
        "Run the tools of a turn in one task group; when one fails, cancel the others and wait for them "
        "before the failure is raised. A tool in a thread has to be waited for."
    ),
    occasion="a tool that was running when another one's failure, or a stop, ended the run",
    holds=[
        Ledger([*_BOTH, _CANCELLED, _ENDED]),
        Ledger([*_BOTH, _DONE, _ENDED]),
        Ledger([_JOB, _SLOW, _STOP, _CANCELLED, _STOPPED]),
    ],
    breaks=[
        Ledger([*_BOTH, _ENDED, _DONE]),
        Ledger([_JOB, _SLOW, _STOP, _STOPPED, _DONE]),
        Ledger([_JOB, _SLOW, _STOPPED, _STOP, _DONE]),
        Ledger([_JOB, _SLOW, _STOP, replace(_CANCELLED, swallowed=True), _STOPPED, _DONE]),
    ],
    silent=[
        Ledger([*_BOTH, _ENDED]),
        Ledger([*_BOTH, replace(_ENDED, how="returned"), _DONE]),
        Ledger([_JOB, _SLOW, _DONE, _STOP, _STOPPED]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _SLOW, _DONE, _BAD, _FAILED, _ENDED]),
        Ledger([_JOB, _SLOW, _ENDED, _DONE]),
        Ledger([*_BOTH, replace(_ENDED, how="killed"), _DONE]),
    ],
)
