"""Four times the facts take four times the work: counted in operations, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from pytest_agentguard import Invariant, Ledger, catalogue, judge
from pytest_agentguard.events import (
    CallOffered,
    ErrorSent,
    Event,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    ToolFinished,
    ToolStarted,
    Witness,
)

ENDPOINT, SPY, RUNNER = Witness.ENDPOINT, Witness.TOOL_SPY, Witness.RUNNER
FEW, MANY = 24, 96
ALLOWED = 4.4  # what is sorted grows a little faster; looking at all for each would be 16


def operations(action: Callable[[], object]) -> int:
    """How many operations of bytecode ``action`` executes in this thread."""
    count = 0

    def look(frame: Any, what: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += what == "opcode"
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def growth(action: Callable[[Ledger], object], make: Callable[[int], Ledger]) -> float:
    """How many times the operations ``action`` takes for four times the facts."""
    few, many = make(FEW), make(MANY)
    assert len(many._raw) >= 4 * len(few._raw) - 6
    return operations(lambda: action(many)) / operations(lambda: action(few))


# -- ledgers of any length, in one lane -----------------------------------------------------------------


def turn(n: int, *, complete: bool = True, nonce: str | None = None, arguments: str = "") -> Iterator[Event]:
    """One request with one call; or with a call that is cut."""
    stream, call = f"s{n}", f"s{n}.c1"
    told = f"call_{n - 1} knonce{n - 1}"
    yield RequestReceived(witness=ENDPOINT, request=f"r{n}", turn=n + 1, body=told)
    fault = "" if complete else "cut"
    yield ReplyStarted(witness=ENDPOINT, stream=stream, request=f"r{n}", finish="tool_calls", fault=fault)
    yield CallOffered(
        witness=ENDPOINT,
        stream=stream,
        call=call,
        tool="record",
        call_id=f"call_{n}",
        nonce=f"k{n:06}" if nonce is None else nonce,
        arguments=arguments or f'{{"x": "k{n:06}"}}',
    )
    if complete:
        yield StreamCompleted(witness=ENDPOINT, stream=stream)
    yield StreamEnded(witness=ENDPOINT, stream=stream, complete=complete, begun=(call,), whole=(call,))


def ran(n: int, **arguments: Any) -> Iterator[Event]:
    yield ToolStarted(witness=SPY, tool="record", invocation=f"i{n}", arguments=arguments)
    yield ToolFinished(witness=SPY, tool="record", invocation=f"i{n}", result=f"done knonce{n}")


def whole(*parts: Iterator[Event]) -> Ledger:
    begun = RunStarted(witness=RUNNER, final="final-n9", limits={"idle_timeout": 1.0})
    ended = RunEnded(witness=RUNNER, how="returned", answer="final-n9")
    return Ledger([begun, *(event for part in parts for event in part), ended])


def with_nonces(count: int) -> Ledger:
    return whole(*(part for n in range(count) for part in (turn(n), ran(n, x=f"k{n:06}"))))


def all_alike(count: int) -> Ledger:
    return whole(*(p for n in range(count) for p in (turn(n, nonce="", arguments="{}"), ran(n))))


def told_apart_by_arguments(count: int) -> Ledger:
    return whole(
        *(turn(n, nonce="", arguments=f'{{"x": [{n}]}}') for n in range(count)),
        *(ran(n, x=[count - n - 1]) for n in range(count)),
    )


def repaired(count: int) -> Ledger:
    """No start has the arguments or the nonce of its call."""
    return whole(*(part for n in range(count) for part in (turn(n), ran(n, x="repaired"))))


def cut_and_tried_again(count: int) -> Ledger:
    again = [turn(n, complete=n % 2 == 1) for n in range(count)]
    return whole(*again, *(ran(n, x=f"k{n:06}") for n in range(1, count, 2)))


def never_completed(count: int) -> Ledger:
    return whole(*(turn(n, complete=False) for n in range(count)))


def errors_and_stalls(count: int) -> Ledger:
    def one(n: int) -> Iterator[Event]:
        yield from turn(n, complete=False)
        yield ErrorSent(witness=ENDPOINT, stream=f"s{n}", kind="overloaded", where="event")
        yield StreamHeld(witness=ENDPOINT, stream=f"s{n}", hold=f"h{n}", why=("stall", "drip")[n % 2])
        yield StreamReleased(witness=ENDPOINT, stream=f"s{n}", hold=f"h{n}", by="limit")

    return whole(*map(one, range(count)))


LEDGERS: Mapping[str, Callable[[int], Ledger]] = {
    make.__name__: make
    for make in (
        with_nonces,
        all_alike,
        told_apart_by_arguments,
        repaired,
        cut_and_tried_again,
        never_completed,
        errors_and_stalls,
    )
}


@pytest.mark.parametrize("make", LEDGERS.values(), ids=LEDGERS)
def test_reading_and_joining_grow_with_the_facts(make: Callable[[int], Ledger]) -> None:
    assert growth(len, make) < ALLOWED


@pytest.mark.parametrize("make", LEDGERS.values(), ids=LEDGERS)
@pytest.mark.parametrize("rule", catalogue.invariants().values(), ids=lambda rule: rule.id)
def test_judging_grows_with_the_facts(rule: Invariant, make: Callable[[int], Ledger]) -> None:
    def read(count: int) -> Ledger:
        ledger = make(count)
        len(ledger)
        return ledger

    assert growth(lambda ledger: judge(ledger, rule), read) < ALLOWED


def test_looking_at_all_for_each_would_be_seen() -> None:
    def quadratic(ledger: Ledger) -> object:
        return [[other for other in ledger if other.lane] for _ in ledger]

    assert growth(quadratic, with_nonces) > 2 * ALLOWED
