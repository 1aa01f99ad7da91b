"""A whole call runs once, with exactly the arguments that were offered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A call that never ran is no occasion: whether it was dropped is for ``nothing-dropped-in-silence``."""
    for offer, end in reading.permitted_calls(ledger):
        starts = ledger.of(ToolStarted, call=offer.call)
        if offer.problem or not offer.known or not starts:
            continue
        yield exercised(offer, starts[0])
        if len(starts) > 1:
            yield violated(f"tool={offer.tool} starts={len(starts)} offered=1", offer, end, *starts)
        for start in starts:
            difference = _difference(ledger, offer, start)
            if difference:
                yield violated(f"tool={start.tool} started with {difference}", offer, end, start)


def _difference(ledger: Ledger, offer: CallOffered, start: ToolStarted) -> str:
    if start.tool != offer.tool:
        return f"tool={start.tool} offered={offer.tool}"
    return reading.altered(offer, start.arguments, reading.schema_of(ledger, offer))


_PARAMETERS = {"properties": {"to": {"type": "string"}, "sum": {"type": "integer", "default": 1}}}
_JOB = RunStarted(witness=Witness.RUNNER, tools={"pay": _PARAMETERS})
_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay", arguments='{"to": "n1"}', nonce="n1"
)
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", arguments={"to": "n1"})
_NOTHING = replace(_CALL, arguments="{}", nonce="")
_RUN_BARE = replace(_RUN, arguments={})
_TWO_ROUNDS = [
    _NOTHING, _MARKER, _END, _RUN_BARE,
    replace(_NOTHING, stream="s2", call="s2.c1"), replace(_MARKER, stream="s2"), replace(_END, stream="s2"),
    _RUN_BARE,
]  # fmt: skip

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="A call that runs twice pays twice; a call that runs with other arguments pays somebody else.",
    source="wire facts §1, §3 (fragments, indices, ids); requirement D03",
    remedy="Join fragments by their index, parse once when the stream is complete, and run each call once.",
    occasion="a tool started for a whole, valid call of a complete reply",
    holds=[Ledger([_JOB, _CALL, _MARKER, _END, _RUN])],
    breaks=[
        Ledger([_JOB, _CALL, _MARKER, _END, _RUN, _RUN]),
        Ledger([_JOB, _CALL, _MARKER, _END, replace(_RUN, arguments={"to": "n1n1"})]),
        Ledger([_JOB, _CALL, _MARKER, _END, replace(_RUN, arguments={})]),
        Ledger([_JOB, _CALL, _MARKER, _END, replace(_RUN, arguments={"to": "n1", "sum": 2})]),
        Ledger([_JOB, _CALL, _MARKER, _END, replace(_RUN, tool="refund")]),
    ],
    silent=[
        Ledger([_JOB, _CALL, _MARKER, _END, replace(_RUN, arguments={"to": "n1", "sum": 1})]),
        Ledger(_TWO_ROUNDS),
    ],
    idle=[
        Ledger([_JOB, _CALL, _MARKER, _END]),
        Ledger([_JOB, _CALL, replace(_END, complete=False), _RUN]),
        Ledger([_JOB, replace(_CALL, problem="invalid"), _MARKER, _END, _RUN]),
    ],
)  # fmt: skip
