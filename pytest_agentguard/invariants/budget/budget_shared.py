"""Workers side by side keep to one budget together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    Event,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    RequestReceived,
    RunStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Side by side is what overlaps: uses of a fetch tool, or else requests at the counting server.

    Model turns are no occasion: their budget is for each turn, and conversations side by side have their own.
    """
    for budget in reading.budgets(ledger):
        if budget.turn:
            continue
        together = _side_by_side(ledger, budget)
        wanted = max(len(budget.attempts), len(ledger.of(FetchStarted, allowed=True)))
        if not together or wanted < budget.allowed:
            continue
        yield exercised(*together)
        received = len(budget.attempts)
        if received > budget.allowed:
            last = budget.attempts[-1].asked
            yield violated(f"received={received} allowed={budget.allowed:g}", *together, last)


def _side_by_side(ledger: Ledger, budget: reading.Budget) -> tuple[Event, ...]:
    """The first two that overlapped; nothing where all came one after the other."""
    starts = ledger.of(FetchStarted, allowed=True)
    ends = {end.call: end.seq for end in ledger.of(FetchEnded)}
    if starts:
        spans = [(start, ends.get(start.call)) for start in starts]
        return _overlapping([(start, end) for start, end in spans if end is not None])
    made: list[tuple[Event, int]] = [(a.asked, a.end.seq) for a in budget.attempts if a.end is not None]
    return _overlapping(made)


def _overlapping(spans: list[tuple[Event, int]]) -> tuple[Event, ...]:
    spans = sorted(spans, key=lambda span: span[0].seq)
    for (first, end), (second, _) in pairwise(spans):
        if second.seq < end:
            return first, second
    return ()


_JOB = RunStarted(witness=Witness.RUNNER, limits={"attempts": 1})
_ONE = FetchStarted(witness=Witness.RUNNER, call="f1", input="report", worker="1")
_TWO = replace(_ONE, call="f2", worker="2")
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/report")
_MORE = replace(_HTTP, request="h2")
_ANSWER = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", status=200)
_OTHER = replace(_ANSWER, request="h2")
_DONE = FetchEnded(witness=Witness.RUNNER, call="f1", how="returned", result="ok")
_SPENT = FetchEnded(witness=Witness.RUNNER, call="f2", how="raised", error="no attempt is left")
_TURN = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1)

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "Workers that look at the budget, then send, then subtract, all find the last attempt free: eight "
        "workers send eight requests where one was allowed."
    ),
    source="requirement B13",
    remedy="Look and subtract in one step, under a lock, before the request is sent.",
    occasion="several uses side by side that ask for as much as one budget allows, or more",
    holds=[
        Ledger([_JOB, _ONE, _TWO, _HTTP, _SPENT, _ANSWER, _DONE]),
        Ledger([replace(_JOB, limits={"attempts": 2}), _HTTP, _MORE, _ANSWER, _OTHER]),
    ],
    breaks=[
        Ledger([_JOB, _ONE, _TWO, _HTTP, _MORE, _OTHER, _SPENT, _ANSWER, _DONE]),
        Ledger([_JOB, _HTTP, _MORE, _ANSWER, _OTHER]),
    ],
    silent=[
        Ledger([replace(_JOB, limits={"attempts": 2}), _ONE, _TWO, _HTTP, _MORE, _OTHER, _SPENT, _DONE]),
        Ledger([_JOB, _TURN, replace(_TURN, request="r2"), _HTTP, _MORE, _ANSWER, _OTHER]),
    ],
    idle=[
        Ledger([_JOB, _HTTP, _ANSWER, _MORE, _OTHER]),
        Ledger([replace(_JOB, limits={}), _HTTP, _MORE, _ANSWER, _OTHER]),
        Ledger([replace(_JOB, limits={"attempts": 3}), _HTTP, _MORE, _ANSWER, _OTHER]),
    ],
)
