"""A call of a stream that ended without its completion marker starts no tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import CallOffered, ReplyStarted, StreamEnded, ToolStarted, Witness


def check(ledger: Ledger) -> Iterator[Finding]:
    """Before or after the end: both are wrong, since nobody knew then whether more was to come."""
    for end in reading.broken_off(ledger):
        for offer in ledger.of(CallOffered, stream=end.stream):
            if offer.call not in end.begun:
                continue
            yield exercised(offer, end)
            whole = offer.call in end.whole and reading.json_object(offer.arguments) is not None
            for start in ledger.of(ToolStarted, call=offer.call):
                yield violated(
                    f"tool={start.tool} started, arguments={reading.brief(start.arguments)}, "
                    f"stream={end.stream} complete=False end={end.end} arguments_whole={whole}",
                    offer, end, start,
                    level=Level.SHOULD if whole else Level.MUST,
                )  # fmt: skip


_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", fault="cut")
_CALL = CallOffered(
    witness=Witness.ENDPOINT,
    stream="s1",
    call="s1.c1",
    tool="pay",
    arguments='{"x": "n1", "y": 2}',
    nonce="n1",
)
_CUT = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False, begun=("s1.c1",))
_WHOLE = replace(_CUT, whole=("s1.c1",))
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", arguments={"x": "n1"})
_BARE = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", arguments={})
_COMPLETE = replace(_WHOLE, complete=True)
_LEFT = replace(_CUT, end="client-left", fired=False)
_SECOND = replace(_CALL, stream="s2", call="s2.c1", arguments='{"x": "n2"}', nonce="n2")
_SECOND_END = replace(_COMPLETE, stream="s2", begun=("s2.c1",), whole=("s2.c1",))
_SECOND_RUN = replace(_RUN, arguments={"x": "n2"})

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A call that was cut is not the call that the model made: half a path, half a command, a safety "
        "flag that never came. Without the completion marker nobody knows whether more was to come."
    ),
    source="wire facts §2, §6, §7 traps 4 and 10; requirements A20, D02",
    remedy=(
        "Collect the calls of a turn and start none before the completion marker has been read; treat the "
        "end of the body without it as a failed request."
    ),
    occasion=(
        "a reply that offers a call ended without its completion: clean end, protocol cut, reset or stall"
    ),
    holds=[Ledger([_REPLY, _CALL, _CUT])],
    breaks=[
        Ledger([_REPLY, _CALL, _CUT, _RUN]),
        Ledger([_REPLY, _CALL, _RUN, _CUT]),
        Ledger([_REPLY, _CALL, _CUT, _BARE]),
        Ledger([_REPLY, _CALL, _WHOLE, _RUN]),
    ],
    silent=[
        Ledger([_REPLY, _CALL, _COMPLETE, _RUN]),
        Ledger([_REPLY, _CALL, _CUT, _SECOND, _SECOND_END, _SECOND_RUN]),
    ],
    idle=[
        Ledger([_REPLY, replace(_CUT, begun=())]),
        Ledger([_REPLY, _CALL, _RUN, _LEFT]),
        Ledger([replace(_REPLY, fault=""), _CALL, replace(_LEFT, fired=True)]),
    ],
)
