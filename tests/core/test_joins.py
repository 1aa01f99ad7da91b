"""Joins of any offers and starts, against the plain way of looking at every offer for every start."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentguard._core.joins import join
from pytest_agentguard.events import CallOffered, Event, StreamEnded, ToolStarted, Witness

NONCES = st.sampled_from(["", "", "k1", "k2", "k12", "1"])
SCALARS = st.sampled_from(["", "k1", "k12", "x", 1, 1.0, True, None, float("nan")])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=3,
)
ARGUMENTS = st.dictionaries(st.sampled_from("xy"), VALUES, max_size=2)
ODD = st.dictionaries(st.just("x"), st.sampled_from([{1, 2}, ("k1",), (1, None), b"k1"]), max_size=1)
TOOLS, LANES, STREAMS = st.sampled_from("fg"), st.sampled_from(["", "", "a"]), st.sampled_from(["s1", "s2"])
TEXTS = ARGUMENTS.map(json.dumps) | st.sampled_from(["", "{", "null", '{"x": 9' + "9" * 5000 + "}"])

OFFERS = st.builds(
    CallOffered,
    witness=st.just(Witness.ENDPOINT),
    stream=STREAMS,
    call=st.sampled_from(["c1", "c2"]),
    tool=TOOLS,
    lane=LANES,
    nonce=NONCES,
    arguments=TEXTS,
)
STARTS = st.builds(
    ToolStarted, witness=st.just(Witness.TOOL_SPY), tool=TOOLS, lane=LANES, arguments=ARGUMENTS | ODD
)
ENDS = st.builds(StreamEnded, witness=st.just(Witness.ENDPOINT), stream=STREAMS, complete=st.booleans())
FACTS = st.lists(OFFERS | STARTS | OFFERS | STARTS | ENDS, max_size=24)


def plainly_joined(events: list[Event]) -> list[Event]:
    complete = {e.stream: e.complete for e in events if isinstance(e, StreamEnded)}
    offers: list[CallOffered] = []
    starts: dict[tuple[str, str], int] = {}
    joined: list[Event] = []
    for event in events:
        if isinstance(event, CallOffered):
            offers.append(event)
        if isinstance(event, ToolStarted):
            fits = fitting(event, [offer for offer in offers if offer.lane == event.lane])
            if len({complete.get(offer.stream) for offer in fits}) > 1:
                event = replace(event, stream="?", call="?")
            elif fits:
                chosen = min(fits, key=lambda offer: starts.get((offer.stream, offer.call), 0))
                starts[chosen.stream, chosen.call] = starts.get((chosen.stream, chosen.call), 0) + 1
                event = replace(event, stream=chosen.stream, call=chosen.call)
        joined.append(event)
    return joined


def fitting(start: ToolStarted, offers: list[CallOffered]) -> list[CallOffered]:
    text = json.dumps(start.arguments, ensure_ascii=False, default=repr)
    by_nonce = [offer for offer in offers if offer.nonce and offer.nonce in text]
    if by_nonce:
        return [offer for offer in by_nonce if offer.tool == start.tool] or by_nonce
    named = [offer for offer in offers if offer.tool == start.tool]
    return [offer for offer in named if equal(offer.arguments, start.arguments)] or named


def equal(raw: str, arguments: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(raw) == arguments)
    except ValueError:
        return False


@settings(max_examples=300, deadline=None, database=None)
@given(FACTS)
def test_every_start_is_joined_as_if_every_offer_had_been_looked_at(events: list[Event]) -> None:
    assert repr(join(events)) == repr(plainly_joined(events))


@settings(max_examples=20, deadline=None, database=None)
@given(st.lists(st.integers(0, 60), max_size=20))
def test_among_very_many_nonces_a_start_finds_its_own(wanted: list[int]) -> None:
    offers = [
        CallOffered(witness=Witness.ENDPOINT, stream=f"s{n}", call=f"c{n}", tool="f", nonce=f"k{n:03}")
        for n in range(61)
    ]
    starts = [ToolStarted(witness=Witness.TOOL_SPY, tool="f", arguments={"x": f"k{n:03}"}) for n in wanted]
    found = [event for event in join([*offers, *starts]) if isinstance(event, ToolStarted)]

    assert [event.call for event in found] == [f"c{n}" for n in wanted]


def test_arguments_nested_without_end_fit_by_their_tool() -> None:
    offer = CallOffered(witness=Witness.ENDPOINT, stream="s1", call="c1", tool="f", arguments="[" * 100_000)
    start = ToolStarted(witness=Witness.TOOL_SPY, tool="f")

    assert join([offer, start])[1] == replace(start, stream="s1", call="c1")
