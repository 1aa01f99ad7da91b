"""Of runs that go on at the same time, one that fails or is cancelled changes nothing in another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    Event,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Every run has its own nonces: one that turns up elsewhere has crossed over."""
    lanes = {name: part for name, part in ledger.by_lane().items() if part.run is not None}
    for (name, part), (other_name, other) in permutations(lanes.items(), 2):
        if not _overlap(part, other):
            continue
        yield exercised(*_bounds(part), *_bounds(other))
        yield from _crossed(name, part, other_name, other)
    yield from _disturbed(lanes)


def _bounds(part: Ledger) -> tuple[Event, ...]:
    return tuple(event for event in (part.run, part.end) if event is not None)


def _overlap(part: Ledger, other: Ledger) -> bool:
    """Whether each had started before the other ended."""
    return all(
        one.run is not None and (two.end is None or one.run.seq < two.end.seq)
        for one, two in ((part, other), (other, part))
    )


def _crossed(name: str, part: Ledger, other_name: str, other: Ledger) -> Iterator[Finding]:
    """Text or calls of ``other`` in the tools, the requests or the answer of ``part``."""
    own = _nonces(part)
    for nonce, source in _nonces(other).items():
        if nonce in own:
            continue
        for event, text in _texts(part):
            if nonce in text:
                kind = type(event).__name__
                yield violated(
                    f"lane={name} {kind} carries nonce={nonce} of lane={other_name}", source, event
                )


def _nonces(part: Ledger) -> dict[str, Event]:
    nonces: dict[str, Event] = {o.nonce: o for o in part.of(CallOffered) if o.nonce}
    if part.run is not None and part.run.final:
        nonces[part.run.final] = part.run
    return nonces


def _texts(part: Ledger) -> Iterator[tuple[Event, str]]:
    yield from ((start, reading.text_of(start.arguments)) for start in part.of(ToolStarted))
    yield from ((request, request.body) for request in part.of(RequestReceived))
    yield from ((end, end.answer or "") for end in part.of(RunEnded))


def _disturbed(lanes: Mapping[str, Ledger]) -> Iterator[Finding]:
    """A run with healthy replies only that did not end well, beside one that was made to fail."""
    faulty = [part for part in lanes.values() if _spoiled(part)]
    cancelled = [p for p in lanes.values() if p.end is not None and p.end.how == "cancelled"]
    for name, part in lanes.items():
        end, run = part.end, part.run
        beside = [p for p in (*faulty, *cancelled) if p is not part and _overlap(part, p)]
        if end is None or run is None or not beside or _spoiled(part) or end.how in ("killed", "limited"):
            continue
        if end.how == "cancelled" and not faulty and len(cancelled) == 1:
            continue
        if end.how != "returned" or not reading.answers_truly(part, end):
            facts = f"how={end.how} answer={reading.brief(end.answer)} error={reading.brief(end.error)}"
            yield violated(f"lane={name} {facts}, its own replies healthy", *_bounds(beside[0]), end)
        for offer, _ in reading.permitted_calls(part):
            starts = part.of(ToolStarted, call=offer.call)
            if len(starts) != 1:
                yield violated(
                    f"lane={name} tool={offer.tool} starts={len(starts)} offered=1", offer, end, *starts
                )


def _spoiled(part: Ledger) -> bool:
    return bool(part.of(ReplyStarted)) and not reading.is_healthy(part)


def _lane(name: str, how: str, nonce: str, fault: str = "") -> list[Event]:
    final = f"final-{name}"
    call = f"{name}1.c1"
    return [
        RunStarted(witness=Witness.RUNNER, lane=name, final=final),
        ReplyStarted(
            witness=Witness.ENDPOINT,
            lane=name,
            stream=f"{name}1",
            request=f"{name}r1",
            finish="tool_calls",
            fault=fault,
        ),
        CallOffered(
            witness=Witness.ENDPOINT,
            lane=name,
            stream=f"{name}1",
            call=call,
            tool="record",
            arguments=f'{{"x": "{nonce}"}}',
            nonce=nonce,
        ),
        StreamCompleted(witness=Witness.ENDPOINT, lane=name, stream=f"{name}1"),
        StreamEnded(witness=Witness.ENDPOINT, lane=name, stream=f"{name}1", complete=True),
        ToolStarted(witness=Witness.TOOL_SPY, lane=name, tool="record", arguments={"x": nonce}),
        RunEnded(witness=Witness.RUNNER, lane=name, how=how, answer=final if how == "returned" else None),
    ]


def _beside(first: list[Event], second: list[Event]) -> Ledger:
    return Ledger([first[0], second[0], *first[1:], *second[1:]])


def _taking(nonce: str) -> list[Event]:
    events = _lane("b", "returned", "n2")
    return [replace(e, arguments={"x": nonce}) if isinstance(e, ToolStarted) else e for e in events]


_FAILING = _lane("a", "raised", "n1", "cut")
_STOPPED = _lane("a", "cancelled", "n1")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A server runs many conversations; what one of them says, does or breaks off is none of another's "
        "business."
    ),
    source="requirement A43",
    remedy=(
        "Keep history, tools, clients that are closed, and cancel scopes per run, never in module or "
        "class state."
    ),
    occasion="two runs that overlap in time",
    holds=[
        _beside(_FAILING, _lane("b", "returned", "n2")),
        _beside(_STOPPED, _lane("b", "returned", "n2")),
    ],
    breaks=[
        _beside(_FAILING, _lane("b", "raised", "n2")),
        _beside(_STOPPED, _lane("b", "cancelled", "n2")),
        _beside(_FAILING, _taking("n1")),
        _beside(_FAILING, [e for e in _lane("b", "returned", "n2") if not isinstance(e, ToolStarted)]),
    ],
    silent=[
        _beside(_lane("a", "returned", "n1"), _lane("b", "returned", "n2")),
        _beside(_FAILING, _lane("b", "raised", "n2", "cut")),
    ],
    idle=[
        Ledger(),
        Ledger(_lane("a", "returned", "n1")),
        Ledger([*_FAILING, *_lane("b", "returned", "n2")]),
    ],
    across_lanes=True,
)  # fmt: skip
