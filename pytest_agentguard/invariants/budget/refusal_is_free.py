"""An input that the policy refuses uses up nothing of the budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    Event,
    FetchEnded,
    FetchStarted,
    HttpReceived,
    RunStarted,
    StopRequested,
    Witness,
)


@dataclass(slots=True)
class _Use:
    """One call that nothing else overlapped, and how many requests had been received when it began."""

    start: FetchStarted
    before: int
    is_alone: bool


def check(ledger: Ledger) -> Iterator[Finding]:
    """An allowed call for which there is room, though not if the refused ones before it were counted."""
    received = 0
    refused: list[FetchEnded] = []
    under_way: dict[str, _Use] = {}
    for fact in _facts(ledger):
        match fact:
            case HttpReceived():
                received += 1
            case StopRequested():
                return
            case FetchStarted():
                for other in under_way.values():
                    other.is_alone = False
                under_way[fact.call] = _Use(fact, received, not under_way)
            case FetchEnded() if fact.call in under_way:
                use = under_way.pop(fact.call)
                if not use.start.allowed:
                    refused += [fact] if received == use.before and fact.how != "cancelled" else []
                elif use.is_alone and _has_room(ledger, use, len(refused)):
                    yield exercised(refused[0], use.start, fact)
                    if fact.how == "raised" and received == use.before:
                        limit = reading.limit_of(ledger, fact, "attempts")
                        yield violated(
                            f"call={fact.call} refused, received={received} attempts={limit:g} "
                            f"refused by policy={len(refused)}",
                            refused[0], use.start, fact,
                        )  # fmt: skip


def _facts(ledger: Ledger) -> list[Event]:
    calls = [*ledger.of(FetchStarted), *ledger.of(FetchEnded)]
    return sorted([*calls, *ledger.of(HttpReceived), *ledger.of(StopRequested)], key=lambda fact: fact.seq)


def _has_room(ledger: Ledger, use: _Use, refused: int) -> bool:
    limit, deadline = (reading.limit_of(ledger, use.start, name) for name in ("attempts", "deadline"))
    run = reading.run_of(ledger, use.start)
    if limit is None or run is None or (deadline is not None and use.start.t - run.t >= deadline / 2):
        return False  # a deadline that is near refuses as well
    return use.before < limit <= use.before + refused


_JOB = RunStarted(witness=Witness.RUNNER, limits={"attempts": 1})
_BAD = FetchStarted(witness=Witness.RUNNER, call="f1", input="http://127.0.0.1:1/secret", allowed=False)
_REFUSED = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="not on the list")
_GOOD = FetchStarted(witness=Witness.RUNNER, call="f2", input="report")
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/report")
_DONE = FetchEnded(witness=Witness.RUNNER, call="f2", how="returned", result="ok")
_SPENT = replace(_DONE, how="raised", result="", error="no attempt is left")

INVARIANT = Invariant(
    check,
    level=Level.MAY,
    why="A model that names a wrong place once could not do its work any more, though nothing was sent.",
    source="requirement B03",
    remedy="Check the input first; take an attempt from the budget only for what is about to be sent.",
    occasion="an input that was refused by policy, then an allowed one, with just enough left of the budget",
    holds=[Ledger([_JOB, _BAD, _REFUSED, _GOOD, _HTTP, _DONE])],
    breaks=[Ledger([_JOB, _BAD, _REFUSED, _GOOD, _SPENT])],
    silent=[
        Ledger([_JOB, _BAD, _REFUSED, _GOOD, _HTTP, _SPENT]),
        Ledger([_JOB, _BAD, _HTTP, _REFUSED, _GOOD, _SPENT]),
        Ledger([_JOB, _BAD, _REFUSED, StopRequested(witness=Witness.RUNNER), _GOOD, _SPENT]),
        Ledger([replace(_JOB, limits={"attempts": 2}), _BAD, _REFUSED, _GOOD, _SPENT]),
    ],
    idle=[
        Ledger([_JOB, _BAD, _REFUSED]),
        Ledger([replace(_JOB, limits={}), _BAD, _REFUSED, _GOOD, _SPENT]),
        Ledger([_JOB, _GOOD, _SPENT]),
    ],
)
