"""One complete stream gives one answer and one set of arguments, wherever its bytes are split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    Event,
    ReplyStarted,
    RunEnded,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    ToolStarted,
    Witness,
)

_NONCE = re.compile(r"\bk[0-9a-z]{6}\b")  # differs from lane to lane


def check(ledger: Ledger) -> Iterator[Finding]:
    """Every lane is a delivery of its own; each must succeed, and all must agree."""
    lanes = {n: part for n, part in (ledger.by_lane() or {"": ledger}).items() if reading.is_healthy(part)}
    ran = any(ledger.of(ToolStarted, call=o.call) for part in lanes.values() for o in _offers(part))
    for name, part in lanes.items():
        yield from _arguments(name, part, ran)
        yield from _success(name, part)
    yield from _texts(lanes)


def _offers(part: Ledger) -> Iterator[CallOffered]:
    return (offer for offer, _ in reading.permitted_calls(part))


def _arguments(name: str, part: Ledger, ran: bool) -> Iterator[Finding]:
    for offer in _offers(part):
        starts = part.of(ToolStarted, call=offer.call)
        if ran and part.end is not None and not starts:
            yield violated(f"lane={name} tool={offer.tool} starts=0, in other lanes=1", offer, part.end)
        for start in starts:
            yield exercised(offer, start)
            difference = reading.altered(offer, start.arguments, reading.schema_of(part, offer))
            if difference:
                yield violated(f"lane={name} tool={start.tool} started with {difference}", offer, start)


def _success(name: str, part: Ledger) -> Iterator[Finding]:
    end, reply = part.end, part.of(ReplyStarted)[-1]
    if end is None or end.how in ("cancelled", "limited"):
        return
    yield exercised(reply, end)
    if end.how != "returned" or not reading.answers_truly(part, end):
        facts = f"how={end.how} answer={reading.brief(end.answer)} error={reading.brief(end.error)}"
        yield violated(f"lane={name} {facts}, reply healthy and whole", reply, end)


def _texts(lanes: Mapping[str, Ledger]) -> Iterator[Finding]:
    """Lanes whose last reply says the same: where one kept the text to the letter, all have to."""
    groups: dict[str, list[tuple[str, ReplyStarted, RunEnded]]] = {}
    for name, part in lanes.items():
        end, reply = part.end, part.of(ReplyStarted)[-1]
        if end is not None and end.how == "returned" and reply.text.strip():
            groups.setdefault(_NONCE.sub("", reply.text), []).append((name, reply, end))
    for group in groups.values():
        kept = any(_keeps(reply, end) for _, reply, end in group)
        first = _plain(group[0][2])
        for name, reply, end in group:
            if not _keeps(reply, end) if kept else _plain(end) != first:
                facts = f"answer={reading.brief(end.answer)} offered={reading.brief(reply.text)}"
                yield violated(f"lane={name} {facts}, another lane differs", reply, end)


def _keeps(reply: ReplyStarted, end: RunEnded) -> bool:
    return reply.text.strip() in (end.answer or "")


def _plain(end: RunEnded) -> str:
    return _NONCE.sub("", end.answer or "")


def _lane(name: str, answer: str | None, arguments: str = "n1", fault: str = "") -> list[Event]:
    events: list[Event] = [
        RunStarted(witness=Witness.RUNNER, final="final-n9"),
        ReplyStarted(
            witness=Witness.ENDPOINT, stream=f"{name}1", request="r1", finish="tool_calls", fault=fault
        ),
        CallOffered(
            witness=Witness.ENDPOINT,
            stream=f"{name}1",
            call=f"{name}1.c1",
            tool="record",
            arguments='{"x": "n1"}',
            nonce="n1",
        ),
        StreamCompleted(witness=Witness.ENDPOINT, stream=f"{name}1"),
        StreamEnded(witness=Witness.ENDPOINT, stream=f"{name}1", complete=True),
        ToolStarted(witness=Witness.TOOL_SPY, tool="record", arguments={"x": arguments}),
        ReplyStarted(
            witness=Witness.ENDPOINT, stream=f"{name}2", request="r2", text="größer: final-n9", finish="stop"
        ),
        StreamEnded(witness=Witness.ENDPOINT, stream=f"{name}2", complete=True),
        RunEnded(witness=Witness.RUNNER, how="raised" if answer is None else "returned", answer=answer),
    ]
    return [replace(event, lane=name) for event in events]


_RIGHT = "größer: final-n9"
_A = _lane("a", _RIGHT)

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "Networks split bytes where they like. A client that breaks a character, a line or an argument "
        "there works in every test and fails in the field."
    ),
    source="wire facts §1.1 to §1.3; requirement D03; known defect 10",
    remedy="Decode bytes incrementally, and cut lines only at LF, CR and CRLF, before anything is parsed.",
    occasion="a healthy, complete reply; several deliveries of it at different boundaries are compared",
    holds=[Ledger([*_A, *_lane("b", _RIGHT)])],
    breaks=[
        Ledger([*_A, *_lane("b", "gr��er: final-n9")]),
        Ledger([*_A, *_lane("b", None)]),
        Ledger([*_A, *_lane("b", "größer:")]),
        Ledger([*_A, *_lane("b", _RIGHT, "n1n1")]),
        Ledger([*_A, *[e for e in _lane("b", _RIGHT) if not isinstance(e, ToolStarted)]]),
    ],
    silent=[
        Ledger(_A),
        Ledger([*_lane("a", "GRÖSSER: final-n9"), *_lane("b", "GRÖSSER: final-n9")]),
        Ledger([*_A, *_lane("b", None, fault="cut")]),
    ],
    across_lanes=True,
)  # fmt: skip
