"""No more model turns are asked for than are declared, however often the model asks for a tool."""

from __future__ import annotations

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
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A turn that is tried again is one turn; an occasion is the last declared turn that asks for a tool."""
    asking = {offer.stream for offer, _ in reading.permitted_calls(ledger)}
    for run, made in reading.attempts_by_run(ledger):
        limit = reading.declared(run, "rounds")
        first = {a.turn: a for a in reversed(reading.model_turns(made))}
        if limit is None or not first:
            continue
        turns = [first[turn] for turn in sorted(first)]
        allowed = limit * reading.streams_of(ledger, made)
        asked_for_tools = [
            a for a in made if isinstance(a.answer, ReplyStarted) and a.answer.stream in asking
        ]
        if len(asked_for_tools) < allowed:
            continue
        yield exercised(turns[0].asked, *asked_for_tools[-1].evidence)
        if len(turns) > allowed:
            yield violated(
                f"model turns={len(turns)} allowed={allowed:g} rounds={limit:g}",
                turns[0].asked, turns[-1].asked,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, limits={"rounds": 1})
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1)
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="tool_calls")
_CALL = CallOffered(witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="record", nonce="n1")
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True)
_TURN = [_ASKED, _REPLY, _CALL, _MARKER, _END]
_NEXT = replace(_ASKED, request="r2", turn=2)
_ENDED = RunEnded(witness=Witness.RUNNER, how="limited", error="rounds")
_CUT = [_ASKED, replace(_REPLY, fault="cut"), _CALL, replace(_END, complete=False)]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="A model that asks for a tool in every turn keeps an agent going, and paying, for ever.",
    source="wire facts §4; requirement D04",
    remedy="Count model turns, and end the run with an error of its own when the last one asks for a tool.",
    occasion="as many model turns that ask for a tool as there are declared rounds",
    holds=[Ledger([_JOB, *_TURN, _ENDED])],
    breaks=[Ledger([_JOB, *_TURN, _NEXT, _ENDED])],
    silent=[
        Ledger([_JOB, *_TURN, _ENDED, _JOB, _NEXT, _ENDED]),
        Ledger([replace(_JOB, limits={"rounds": 2}), *_TURN, _NEXT, _ENDED]),
        Ledger([_JOB, *_TURN, replace(_NEXT, kind="models"), _ENDED]),
        Ledger([_JOB, *_CUT, replace(_ASKED, request="r2"), _ENDED]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={}), *_TURN, _NEXT, _ENDED]),
        Ledger([_JOB, _ASKED, _REPLY, _MARKER, _END, _ENDED]),
    ],
)
