"""Calls of one turn do not mix: no piece of one ends in another, however they are interleaved."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    ReplyStarted,
    RequestReceived,
    StreamCompleted,
    StreamEnded,
    ToolRaised,
    ToolStarted,
    Witness,
)

_CALL_FIELDS = {"function", "arguments", "input"}
_LINKED_BY_ID = ("openai-chat", "openai-responses", "anthropic")


def check(ledger: Ledger) -> Iterator[Finding]:
    """Of a complete stream, arguments and transcript count too; a cut one leaves pieces by itself."""
    for end, reply in reading.ended(ledger):
        offers = [o for o in ledger.of(CallOffered, stream=end.stream) if o.call in end.begun]
        if len(offers) > 1:
            yield exercised(*offers, end)
            for offer in offers:
                for start in ledger.of(ToolStarted, call=offer.call):
                    mixed = _mixed(ledger, offer, start, offers, end)
                    if mixed:
                        yield violated(mixed, *offers, start)
            yield from _swapped(ledger, offers)
            if end.complete:
                yield from _retold(ledger, offers)
        if end.complete and reply is not None and reply.dialect in _LINKED_BY_ID:
            yield from _made_up(ledger, offers, end, reply)


def _mixed(
    ledger: Ledger, offer: CallOffered, start: ToolStarted, offers: Sequence[CallOffered], end: StreamEnded
) -> str:
    if start.tool != offer.tool and start.tool in [other.tool for other in offers]:
        return f"tool={start.tool} started with the arguments of {offer.call}, tool={offer.tool}"
    text = reading.text_of(start.arguments)
    for other in offers:
        foreign = other.nonce and other.nonce != offer.nonce and other.nonce in text
        if foreign and other.nonce not in offer.arguments:
            return f"tool={start.tool} of {offer.call} started with a piece of {other.call}"
    difference = reading.altered(offer, start.arguments, reading.schema_of(ledger, offer))
    if end.complete and not offer.problem and difference:
        return f"tool={start.tool} of {offer.call} started with {difference}"
    return ""


def _swapped(ledger: Ledger, offers: Sequence[CallOffered]) -> Iterator[Finding]:
    """As many starts as calls of a tool, but one call twice and another never: it was lost to the first.

    A tool that raised may have been tried again, which is another matter.
    """
    starts = {offer.call: ledger.of(ToolStarted, call=offer.call) for offer in offers}
    for offer in offers:
        own = starts[offer.call]
        same = [other for other in offers if other.tool == offer.tool]
        lost = [other.call for other in same if not starts[other.call]]
        total = sum(len(starts[other.call]) for other in same)
        tried = any(ledger.of(ToolRaised, tool=s.tool, invocation=s.invocation) for s in own)
        if len(own) > 1 and lost and total == len(same) and not tried:
            facts = f"of {offer.call} starts={len(own)}, of {lost[0]} starts=0"
            yield violated(f"tool={offer.tool} {facts}", *offers, *own)


def _retold(ledger: Ledger, offers: Sequence[CallOffered]) -> Iterator[Finding]:
    """A call that comes back in a transcript with a piece of another one, whether or not it ran.

    What was mixed is often no JSON any more, so that no tool starts and only the transcript shows it.
    """
    named = {offer.call_id: offer for offer in offers if offer.call_id}
    if len(named) < len(offers):  # without an id of its own a call cannot be found again
        return
    for request in islice(reading.requests_after(ledger, offers[0]), 1):
        for id, call in _calls_in(request.body):
            offer = named.get(id)
            foreign = [o for o in offers if offer and o.nonce and o.nonce not in offer.arguments]
            for other in (o for o in foreign if o.nonce in call):
                yield violated(
                    f"request={request.request} has call_id={id} with a piece of {other.call}",
                    *offers, request,
                    level=Level.SHOULD,
                )  # fmt: skip


def _calls_in(body: str) -> Iterator[tuple[str, str]]:
    """The id and the text of every call in a transcript of any dialect: it has arguments or an input."""
    try:
        nodes = [json.loads(body)]
    except (ValueError, RecursionError):
        return
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            id = node.get("call_id", node.get("id"))
            if isinstance(id, str) and not _CALL_FIELDS.isdisjoint(node):
                yield id, reading.text_of(node)
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)


def _made_up(
    ledger: Ledger, offers: Sequence[CallOffered], end: StreamEnded, reply: ReplyStarted
) -> Iterator[Finding]:
    """A call without an id, in a dialect that links results by id."""
    for offer in offers:
        if offer.call_id is None:
            yield exercised(offer, end)
            for start in ledger.of(ToolStarted, call=offer.call)[:1]:
                yield violated(
                    f"tool={start.tool} started, call_id=absent dialect={reply.dialect}", offer, end, start,
                    level=Level.MAY,
                )  # fmt: skip


_REPLY = ReplyStarted(
    witness=Witness.ENDPOINT, stream="s1", request="r1", dialect="openai-chat", finish="tool_calls"
)
_A = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay",
    arguments='{"to": "n1", "sum": 1}', nonce="n1", call_id="a",
)  # fmt: skip
_B = replace(_A, call="s1.c2", arguments='{"to": "n2", "sum": 2}', nonce="n2", call_id="b")
_C = replace(_B, tool="refund")
_CALLS = ("s1.c1", "s1.c2")
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=_CALLS, whole=_CALLS)
_RUN_A = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", arguments={"to": "n1", "sum": 1})
_RUN_B = replace(_RUN_A, arguments={"to": "n2", "sum": 2})
_RAISED = ToolRaised(witness=Witness.TOOL_SPY, tool="pay", invocation="i1")
_OFFER = [_REPLY, _A, _B, _MARKER, _END]
_NEXT = RequestReceived(
    witness=Witness.ENDPOINT, request="r2", turn=2,
    body=(
        '{"messages": [{"id": "a", "function": {"arguments": "n1"}}, {"id": "b", "function": {"arguments": '
        '"n2"}}, {"call_id": "a", "output": "n1 and n2 were refused"}]}'
    ),
)  # fmt: skip
_MIXED = replace(
    _NEXT, body='{"input": [{"call_id": "a", "arguments": ""}, {"call_id": "b", "arguments": "n1n2"}]}'
)
_CUT = [_REPLY, _A, _B, replace(_END, complete=False, whole=("s1.c1",))]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="Two calls whose pieces are joined by the wrong key become two calls that nobody made.",
    source="wire facts §3.1 (c), §3.2 (c), §3.3 (c), §7 traps 8 and 14",
    remedy=(
        "Key the fragments of a call by its index in the stream, never by arrival, id or position alone."
    ),
    occasion="two or more calls in one turn, or a call without an id in a dialect that links results by id",
    holds=[
        Ledger([*_OFFER, _RUN_A, _RUN_B]),
        Ledger([_REPLY, _A, _C, _MARKER, _END, _RUN_A, replace(_RUN_B, tool="refund")]),
        Ledger([_REPLY, replace(_A, call_id=None), _MARKER, replace(_END, begun=("s1.c1",))]),
    ],
    breaks=[
        Ledger([*_OFFER, replace(_RUN_A, arguments={"to": "n1", "sum": 2}), _RUN_B]),
        Ledger([*_OFFER, replace(_RUN_A, arguments={"to": "n1n2", "sum": 1}), _RUN_B]),
        Ledger([*_OFFER, _RUN_B, _RUN_B]),
        Ledger([*_OFFER, _MIXED]),
        Ledger([_REPLY, _A, _C, _MARKER, _END, _RUN_A, replace(_RUN_B, tool="pay")]),
        Ledger([_REPLY, replace(_A, call_id=None), _MARKER, replace(_END, begun=("s1.c1",)), _RUN_A]),
    ],
    silent=[
        Ledger([*_OFFER, _RUN_B, _RUN_A]),
        Ledger([*_OFFER, _NEXT]),
        Ledger([*_CUT, _MIXED]),
        Ledger([*_OFFER, replace(_RUN_A, invocation="i1"), _RAISED, replace(_RUN_A, invocation="i2")]),
        Ledger(_CUT),
        Ledger(
            [
                replace(_REPLY, dialect="gemini"),
                replace(_A, call_id=None), replace(_B, call_id=None), _MARKER, _END, _RUN_A, _RUN_B,
            ]
        ),
    ],
    idle=[Ledger([_REPLY, _A, _MARKER, replace(_END, begun=("s1.c1",)), _RUN_A])],
)  # fmt: skip
