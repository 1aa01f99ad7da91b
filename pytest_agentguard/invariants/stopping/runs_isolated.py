"""Of runs that go on at the same time, one that fails or is cancelled changes nothing in another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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


@dataclass(frozen=True)
class _Run:
    """One lane, with what is asked of it again and again where another one overlaps."""

    name: str
    part: Ledger
    began: RunStarted
    ended: RunEnded | None

    @cached_property
    def nonces(self) -> Mapping[str, Event]:
        """What only this run was given, with the fact that says so."""
        return _nonces(self.part, self.began)

    @cached_property
    def texts(self) -> Sequence[tuple[Event, str]]:
        """What it did with what it was given."""
        return list(_texts(self.part))

    @cached_property
    def is_spoiled(self) -> bool:
        """Whether something was made to go wrong in it."""
        return bool(self.part.of(ReplyStarted)) and not reading.is_healthy(self.part)

    @property
    def bounds(self) -> tuple[Event, ...]:
        """How it began and ended, as evidence."""
        return (self.began,) if self.ended is None else (self.began, self.ended)

    @property
    def is_cancelled(self) -> bool:
        """Whether it was stopped from outside."""
        return self.ended is not None and self.ended.how == "cancelled"

    def overlaps(self, other: _Run) -> bool:
        """Whether each had started before the other ended."""
        return self._before_end(other) and other._before_end(self)

    def _before_end(self, other: _Run) -> bool:
        return other.ended is None or self.began.seq < other.ended.seq


def check(ledger: Ledger) -> Iterator[Finding]:
    """Every run has its own nonces: one that turns up elsewhere has crossed over."""
    runs = sorted(_runs(ledger), key=lambda run: run.began.seq)
    beside: dict[str, list[_Run]] = {run.name: [] for run in runs}
    for one, other in _overlapping(runs):
        beside[one.name].append(other)
        yield exercised(*one.bounds, *other.bounds)
        yield from _crossed(one, other)
    yield from _disturbed(runs, beside)


def _runs(ledger: Ledger) -> Iterator[_Run]:
    for name, part in ledger.by_lane().items():
        began = part.run
        if began is not None:
            yield _Run(name, part, began, part.end)


def _overlapping(runs: Sequence[_Run]) -> Iterator[tuple[_Run, _Run]]:
    """Every pair that overlaps, either way round; of runs in the order in which they began."""
    for n, one in enumerate(runs, 1):
        for other in map(runs.__getitem__, range(n, len(runs))):
            if one.ended is not None and one.ended.seq < other.began.seq:
                break  # and so did all later ones
            if one.overlaps(other):
                yield one, other
                yield other, one


def _crossed(one: _Run, other: _Run) -> Iterator[Finding]:
    """Text or calls of ``other`` in the tools, the requests or the answer of ``one``."""
    for nonce, source in other.nonces.items():
        if nonce in one.nonces:
            continue
        for event, text in one.texts:
            if nonce in text:
                kind = type(event).__name__
                yield violated(
                    f"lane={one.name} {kind} carries nonce={nonce} of lane={other.name}", source, event
                )


def _nonces(part: Ledger, began: RunStarted) -> dict[str, Event]:
    nonces: dict[str, Event] = {o.nonce: o for o in part.of(CallOffered) if o.nonce}
    return {**nonces, began.final: began} if began.final else nonces


def _texts(part: Ledger) -> Iterator[tuple[Event, str]]:
    yield from ((start, reading.text_of(start.arguments)) for start in part.of(ToolStarted))
    yield from ((request, request.body) for request in part.of(RequestReceived))
    yield from ((end, end.answer or "") for end in part.of(RunEnded))


def _disturbed(runs: Sequence[_Run], beside: Mapping[str, Sequence[_Run]]) -> Iterator[Finding]:
    """A run with healthy replies only that did not end well, beside one that was made to fail."""
    is_lone_stop = sum(run.is_cancelled for run in runs) == 1 and not any(run.is_spoiled for run in runs)
    for one in runs:
        end, near = one.ended, beside[one.name]
        if not near or end is None or end.how in ("killed", "limited") or one.is_spoiled:
            continue
        failed = [run for run in near if run.is_spoiled] or [run for run in near if run.is_cancelled]
        if not failed or (one.is_cancelled and is_lone_stop):
            continue
        if end.how != "returned" or not reading.answers_truly(one.part, end):
            facts = f"how={end.how} answer={reading.brief(end.answer)} error={reading.brief(end.error)}"
            yield violated(f"lane={one.name} {facts}, its own replies healthy", *failed[0].bounds, end)
        yield from _not_once(one, end)


def _not_once(one: _Run, end: RunEnded) -> Iterator[Finding]:
    for offer, _ in reading.permitted_calls(one.part):
        starts = one.part.of(ToolStarted, call=offer.call)
        if len(starts) != 1:
            facts = f"lane={one.name} tool={offer.tool} starts={len(starts)} offered=1"
            yield violated(facts, offer, end, *starts)


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
