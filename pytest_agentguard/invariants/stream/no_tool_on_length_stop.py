"""A call of a turn that stopped at the output limit starts no tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import CallOffered, ReplyStarted, StreamEnded, ToolStarted, Witness


def check(ledger: Ledger) -> Iterator[Finding]:
    """Whole arguments make it a debatable practice: the turn was cut all the same."""
    for reply in ledger.of(ReplyStarted, finish="length"):
        for end in ledger.of(StreamEnded, stream=reply.stream, complete=True):
            for offer in ledger.of(CallOffered, stream=reply.stream):
                yield exercised(offer, end)
                whole = reading.json_object(offer.arguments) is not None
                for start in ledger.of(ToolStarted, call=offer.call):
                    yield violated(
                        f"tool={start.tool} started, arguments={reading.brief(start.arguments)}, "
                        f"stream={end.stream} finish=length arguments_whole={whole}",
                        reply, offer, end, start,
                        level=Level.MAY if whole else Level.MUST,
                    )  # fmt: skip


_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="length")
_CALL = CallOffered(
    witness=Witness.ENDPOINT,
    stream="s1",
    call="s1.c1",
    tool="pay",
    arguments='{"x": "n1',
    nonce="n1",
    problem="broken",
)
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", arguments={"x": "n1"})
_WHOLE = replace(_CALL, arguments='{"x": "n1"}', problem="")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "The output limit stopped the model in the middle of a call. What a lenient parser makes of the "
        "rest is not what the model asked for, and it can be the tool's dangerous default."
    ),
    source="wire facts §3 (finish reasons), §6, §7 trap 11; requirement A21; known defect 1",
    remedy=(
        "Read the finish reason before running calls, and run none on an output limit; tell the model or "
        "fail the run."
    ),
    occasion="a whole reply that offers a call and whose finish reason says output limit",
    holds=[Ledger([_REPLY, _CALL, _END]), Ledger([_REPLY, _WHOLE, _END])],
    breaks=[
        Ledger([_REPLY, _CALL, _END, _RUN]),
        Ledger([_REPLY, _CALL, _RUN, _END]),
        Ledger([_REPLY, _CALL, _END, replace(_RUN, arguments={})]),
        Ledger([_REPLY, _WHOLE, _END, _RUN]),
    ],
    silent=[Ledger([replace(_REPLY, finish="tool_calls"), _WHOLE, _END, _RUN])],
    idle=[
        Ledger([_REPLY, replace(_END, begun=(), whole=())]),
        Ledger([_REPLY, _CALL, replace(_END, complete=False)]),
    ],
)
