"""A call that was withdrawn, by its finish reason or by an error after it, starts no tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    ErrorSent,
    Event,
    ReplyStarted,
    StreamEnded,
    ToolStarted,
    Witness,
)

_WITHDRAW = ("filter", "refusal", "unknown")


def check(ledger: Ledger) -> Iterator[Finding]:
    """An error event withdraws the calls of its stream whatever comes after it."""
    for end, reply in reading.ended(ledger):
        for by, why, level in _withdrawals(ledger, end, reply):
            for offer in ledger.of(CallOffered, stream=end.stream):
                if offer.call not in end.begun:
                    continue
                yield exercised(by, offer, end)
                for start in ledger.of(ToolStarted, call=offer.call):
                    yield violated(
                        f"tool={start.tool} started, arguments={reading.brief(start.arguments)}, "
                        f"stream={end.stream} {why}",
                        by, offer, end, start,
                        level=level,
                    )  # fmt: skip


def _withdrawals(
    ledger: Ledger, end: StreamEnded, reply: ReplyStarted | None
) -> Iterator[tuple[Event, str, Level]]:
    if reply is not None and reply.finish in _WITHDRAW and end.complete:
        yield reply, f"finish={reply.finish}", Level.SHOULD
    for error in ledger.of(ErrorSent, stream=end.stream):
        if error.where != "status" and end.fired:
            yield error, f"error={error.kind} where={error.where}", Level.MUST


_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="filter")
_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay", arguments='{"x": "n1"}', nonce="n1"
)
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", arguments={"x": "n1"})
_PLAIN = replace(_REPLY, finish="tool_calls")
_FAULTY = replace(_PLAIN, fault="error-event")
_ERROR = ErrorSent(witness=Witness.ENDPOINT, stream="s1", kind="overloaded", where="event")
_UNFINISHED = replace(_END, complete=False)

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A content filter, a refusal or an error after a call takes the call back. To run it all the same "
        "is to do what the provider said must not be done."
    ),
    source="wire facts §6 (always not executable), §7 trap 16",
    remedy=(
        "Run calls only on a finish reason that is known to permit them, and none of a stream that has an "
        "error."
    ),
    occasion=(
        "a call in a reply whose finish reason is a filter, a refusal or unknown, or in a stream with an "
        "error"
    ),
    holds=[Ledger([_REPLY, _CALL, _END]), Ledger([_FAULTY, _CALL, _ERROR, _UNFINISHED])],
    breaks=[
        Ledger([_REPLY, _CALL, _END, _RUN]),
        Ledger([_FAULTY, _CALL, _ERROR, _UNFINISHED, _RUN]),
        Ledger([_FAULTY, _CALL, _RUN, _ERROR, _UNFINISHED]),
    ],
    silent=[
        Ledger([_PLAIN, _CALL, _END, _RUN]),
        Ledger([replace(_PLAIN, finish="stop"), _CALL, _END, _RUN]),
    ],
    idle=[
        Ledger([_FAULTY, _CALL, _ERROR, _RUN, replace(_UNFINISHED, end="client-left", fired=False)]),
        Ledger([_REPLY, replace(_END, begun=(), whole=())]),
    ],
)
