"""A batch of calls that goes beyond the tool limit is refused before any of it has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
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
    """A batch is the calls of one whole turn; those that ran in earlier turns of the run count with it."""
    batches = _batches(ledger)
    started = Counter(start.stream for start in ledger.of(ToolStarted))
    for run, made in reading.attempts_by_run(ledger):
        limit = reading.declared(run, "tool_calls")
        if limit is None or reading.streams_of(ledger, made) > 1:
            continue
        before = 0
        for attempt in made:
            stream = attempt.answer.stream if isinstance(attempt.answer, ReplyStarted) else ""
            batch, ran = batches.get(stream, []), started[stream]
            if batch and before + len(batch) > limit:
                yield exercised(*batch)
                if ran:
                    first = ledger.of(ToolStarted, stream=stream)[0]
                    yield violated(
                        f"started={ran} batch={len(batch)} before={before} tool_calls={limit:g}",
                        *batch, first,
                    )  # fmt: skip
            before += ran


def _batches(ledger: Ledger) -> dict[str, list[CallOffered]]:
    """The calls of each whole turn that an agent may run; broken and unknown ones may be left out."""
    found: dict[str, list[CallOffered]] = {}
    for offer, _ in reading.permitted_calls(ledger):
        if offer.known and not offer.problem:
            found.setdefault(offer.stream, []).append(offer)
    return found


_JOB = RunStarted(witness=Witness.RUNNER, limits={"tool_calls": 1})
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1)
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="tool_calls")
_ONE = CallOffered(witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="record", nonce="n1")
_TWO = replace(_ONE, call="s1.c2", nonce="n2")
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True)
_BATCH = [_JOB, _ASKED, _REPLY, _ONE, _TWO, _MARKER, _END]
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="record", stream="s1", call="s1.c1", arguments={"x": "n1"})
_ENDED = RunEnded(witness=Witness.RUNNER, how="limited", error="tool calls")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="Half of a batch has had its effects when the run ends, and nobody knows which half.",
    source="requirement D04",
    remedy="Count the calls of a turn before the first of them runs, and refuse all of them together.",
    occasion="a whole turn with more calls than are left of the declared tool calls",
    holds=[Ledger([*_BATCH, _ENDED])],
    breaks=[
        Ledger([*_BATCH, _RUN, _ENDED]),
        Ledger([*_BATCH, _RUN, replace(_RUN, call="s1.c2", arguments={"x": "n2"}), _ENDED]),
    ],
    silent=[
        Ledger([replace(_JOB, limits={"tool_calls": 2}), *_BATCH[1:], _RUN, _ENDED]),
        Ledger([*_BATCH[:4], replace(_TWO, problem="broken"), *_BATCH[5:], _RUN, _ENDED]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={}), *_BATCH[1:], _RUN, _ENDED]),
        Ledger([*_BATCH[:4], *_BATCH[5:], _RUN, _ENDED]),
        Ledger([*_BATCH[:5], replace(_END, complete=False), _RUN, _ENDED]),
    ],
)
