"""Rows 14 and 15, and the ledger in row 17: what it costs to record a fact, to judge, to look for leaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from measuring import Cost, Row, cpu, here, interleaved, without_collector

from pytest_agentguard import Ledger, catalogue
from pytest_agentguard._core.verdict import judge
from pytest_agentguard._witnesses.leaks import Snapshot
from pytest_agentguard._witnesses.origins import Origins
from pytest_agentguard.events import (
    CallOffered,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    ToolFinished,
    ToolStarted,
    Witness,
)

_APPENDS = 20_000
_STREAMS = 200  # what an endpoint serves in one lane
_ENDPOINT = Witness.ENDPOINT


def rows() -> Iterator[Row]:
    """Append, rules, snapshot."""
    yield _append()
    yield from _rules()
    yield _snapshot()


# -- appending ------------------------------------------------------------------------------------


def _append() -> Row:
    costs = interleaved({"tuple": _tuples, "ledger": _records}, rounds=15)
    ours, floor = cpu(costs["ledger"]), cpu(costs["tuple"])
    return Row(
        number="15",
        what="ledger append",
        against="a tuple with time, kind and fields appended to a list",
        budget=2.0,
        value=ours / floor,
        detail=f"{ours / _APPENDS * 1e9:.0f} ns, tuple {floor / _APPENDS * 1e9:.0f} ns",
    )


def _tuples() -> Cost:
    raw: list[object] = []
    clock = time.monotonic

    def append() -> None:
        for _ in range(_APPENDS):
            raw.append((clock(), StreamCompleted, {"witness": _ENDPOINT, "stream": "s1", "permits": True}))

    return here(append)


def _records() -> Cost:
    ledger = Ledger(clock=time.monotonic)

    def append() -> None:
        for _ in range(_APPENDS):
            ledger.record(StreamCompleted, witness=_ENDPOINT, stream="s1", permits=True)

    return here(append)


# -- judging --------------------------------------------------------------------------------------


def told(streams: int, *, lanes: bool, nonces: bool = True) -> Ledger:
    """A ledger of healthy and cut calls, in one lane or in a lane each.

    Without ``nonces`` only their arguments tell the calls apart.
    """
    ledger = Ledger(clock=time.monotonic)
    for n in range(streams):
        lane, final = (f"l{n}", f"final-{n}") if lanes else ("", "final")
        stream, request = (f"{lane}/s1", f"{lane}/r1") if lanes else (f"s{n}", f"r{n}")
        call, whole = f"{stream}.c1", n % 2 == 0
        ours = {"witness": _ENDPOINT, "lane": lane}
        if lanes or n == 0:
            ledger.record(RunStarted, witness=Witness.RUNNER, lane=lane, final=final)
        asked = {"dialect": "openai-chat", "mode": "stream", "turn": 1, "body": f'{{"n":{n}}}'}
        ledger.record(RequestReceived, request=request, **asked, **ours)
        ledger.record(
            ReplyStarted, stream=stream, request=request, fault="" if whole else "cut", mode="stream", **ours
        )
        nonce = f"k{n:06}" if nonces else ""
        offered = {"tool": "record", "arguments": f'{{"x":"k{n:06}-evidence"}}', "nonce": nonce}
        ledger.record(CallOffered, stream=stream, call=call, **offered, **ours)
        if whole:
            ledger.record(StreamCompleted, stream=stream, permits=True, **ours)
        ended = {"complete": whole, "begun": (call,), "whole": (call,) if whole else ()}
        ledger.record(StreamEnded, stream=stream, end="clean", **ended, **ours)
        if whole:
            spy = {"witness": Witness.TOOL_SPY, "lane": lane, "tool": "record", "invocation": f"{lane}t{n}"}
            ledger.record(ToolStarted, arguments={"x": f"k{n:06}-evidence"}, **spy)
            ledger.record(ToolFinished, **spy)
        if lanes or n == streams - 1:
            ledger.record(RunEnded, witness=Witness.RUNNER, lane=lane, how="returned", answer=final)
    return ledger


def read_and_judged(ledger: Ledger) -> None:
    """Build the events, then have every rule judge them."""
    len(ledger)
    for rule in catalogue.invariants().values():
        judge(ledger, rule)


def _rules() -> Iterator[Row]:
    """Of a ledger that was read and that no rule has seen: what one rule learns the next ones know."""
    families = {rule.family for rule in catalogue.invariants().values()}
    for lanes in (False, True):
        events = len(told(_STREAMS, lanes=lanes))
        with without_collector():
            costs = interleaved({"rules": partial(_judging, lanes)}, rounds=15)
        each = cpu(costs["rules"]) / events / len(families) * 1e6
        yield Row(
            number="15",
            what=f"all {len(catalogue.invariants())} rules over one ledger that none has seen, "
            "per event and rule family" + (", a lane per stream" if lanes else ", one lane"),
            against="–",
            budget=1.0,
            value=each,
            unit="µs",
            detail=f"{events} events, {len(families)} families",
        )
    yield from _linear()


def _judging(lanes: bool) -> Cost:
    ledger = told(_STREAMS, lanes=lanes)
    len(ledger)
    return here(partial(read_and_judged, ledger))


def _linear() -> Iterator[Row]:
    ledgers = {
        ", one lane": partial(told, lanes=False),
        ", one lane, no nonces": partial(told, lanes=False, nonces=False),
        ", a lane per stream": partial(told, lanes=True),
    }
    for which, make in ledgers.items():
        sizes = {
            "n": partial(_from_nothing, make, _STREAMS),
            "4n": partial(_from_nothing, make, 4 * _STREAMS),
        }
        with without_collector():
            costs = interleaved(sizes, rounds=9)
        yield Row(
            number="17",
            what=f"ledger time for 4 n events{which}: record, read, judge",
            against="4 times the time for n",
            budget=1.25,
            value=cpu(costs["4n"]) / cpu(costs["n"]) / 4,
            detail=f"n is {len(make(_STREAMS))} events",
        )


def _from_nothing(make: Callable[[int], Ledger], streams: int) -> Cost:
    return here(lambda: read_and_judged(make(streams)))


# -- leaks ----------------------------------------------------------------------------------------


def _snapshot() -> Row:
    import psutil

    me = psutil.Process()

    def walk() -> None:
        me.children(recursive=True)
        me.net_connections()

    origins = Origins()
    taken = Snapshot(origins)  # by now the hook is in, which stays
    actions = {
        "snapshot": _each(lambda: Snapshot(origins), 200),
        "look": _each(taken.left_in_time, 200),
        "psutil": _each(walk, 5),
    }
    costs = interleaved(actions, rounds=7)
    ours, look = cpu(costs["snapshot"]) / 200, cpu(costs["look"]) / 200
    peer = cpu(costs["psutil"]) / 5
    return Row(
        number="14",
        what="leak snapshot: tasks, threads, sockets, files, child processes",
        against="psutil: children and connections",
        budget=50.0,
        value=ours * 1e6,
        unit="µs",
        detail=f"psutil {peer * 1e6:.0f} µs; the look afterwards, with nothing left, {look * 1e6:.0f} µs",
    )


def _each(action: Callable[[], object], times: int) -> Callable[[], Cost]:
    def repeat() -> None:
        for _ in range(times):
            action()

    return lambda: here(repeat)
