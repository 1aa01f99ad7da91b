"""Once a run is over, nothing of it is alive or open any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import LeftBehind, RunEnded, RunStarted, WatchEnded, Witness

_HARMFUL = ("process", "request")  # they go on doing things; the rest only takes up room


def check(ledger: Ledger) -> Iterator[Finding]:
    """Looked at after the grace period; a run that the runner had to kill left nothing by itself.

    Where no run is on record, it is the body of a test that was watched.
    """
    for watch in ledger.of(WatchEnded):
        ends = ledger.before(watch, RunEnded)
        if not ends:
            yield exercised(watch)
        for end in ends:
            if end.how != "killed":
                yield exercised(end, watch)
    for left in ledger.of(LeftBehind):
        ended = reading.end_of_run(ledger, left)
        if ended is not None and ended.how == "killed":
            continue
        level = Level.MUST if left.kind in _HARMFUL else Level.SHOULD
        made = f" created={left.created}" if left.created else ""
        evidence = (left,) if ended is None else (ended, left)
        yield violated(f"left behind kind={left.kind} what={left.what}{made}", *evidence, level=level)


_JOB = RunStarted(witness=Witness.RUNNER)
_ENDED = RunEnded(witness=Witness.RUNNER, how="cancelled")
_WATCHED = WatchEnded(witness=Witness.RUNNER, seconds=0.5)
_TASK = LeftBehind(witness=Witness.RUNNER, kind="task", what="Task-3: poll", created="app.py:12 in start")
_PROCESS = LeftBehind(witness=Witness.RUNNER, kind="process", what="pid=4711 sleep 60")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A process or request that outlives its run goes on doing what was stopped; a task, thread, socket "
        "or file is taken from all runs that follow."
    ),
    source="requirement B11",
    remedy=(
        "Close clients with `with`, keep tasks in a group that is awaited, join threads, and wait for child "
        "processes in a `finally`."
    ),
    occasion="the end of a run, and of the time for which it was watched afterwards",
    holds=[Ledger([_JOB, _ENDED, _WATCHED]), Ledger([_JOB, replace(_ENDED, how="returned"), _WATCHED])],
    breaks=[
        Ledger([_JOB, _ENDED, _TASK, _WATCHED]),
        Ledger([_JOB, _ENDED, _PROCESS, _WATCHED]),
        Ledger([_JOB, replace(_ENDED, how="returned"), replace(_TASK, kind="socket"), _WATCHED]),
    ],
    silent=[
        Ledger([_JOB, replace(_ENDED, how="killed"), _TASK, _WATCHED]),
        Ledger([_JOB, replace(_ENDED, how="raised"), _WATCHED]),
        Ledger([_WATCHED]),
    ],
    idle=[Ledger(), Ledger([_JOB, _ENDED]), Ledger([_JOB, replace(_ENDED, how="killed"), _WATCHED])],
)
