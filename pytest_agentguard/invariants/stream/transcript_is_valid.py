"""Every follow-up request is one that a real provider accepts, with the results of the tools that ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from re import findall

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    RequestReceived,
    StreamCompleted,
    StreamEnded,
    ToolCancelled,
    ToolFinished,
    ToolStarted,
    TranscriptRejected,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """The endpoint reads transcripts as a provider does; besides, a result that existed must be told."""
    for request in ledger.of(RequestReceived, kind="turn"):
        rejections = ledger.of(TranscriptRejected, request=request.request)
        if request.turn > 1 or rejections:
            yield exercised(request)
        for rejected in rejections:
            yield violated(
                f"request={request.request} turn={request.turn} rejected: {rejected.problem}",
                request,
                rejected,
            )
    yield from _lost_results(ledger)


def _lost_results(ledger: Ledger) -> Iterator[Finding]:
    """A tool that finished, and a later transcript with its call in which the result never appears."""
    for offer, _ in reading.permitted_calls(ledger):
        for start in ledger.of(ToolStarted, call=offer.call):
            finished = ledger.first(ToolFinished, tool=start.tool, invocation=start.invocation)
            marks = _marks(finished.result) if finished is not None and start.invocation else []
            if finished is None or not marks or not offer.call_id:
                continue
            if ledger.of(ToolCancelled, tool=finished.tool, invocation=finished.invocation):
                continue
            carriers = _carriers(ledger, offer.call_id, start, finished, marks)
            if carriers:
                yield violated(
                    f"tool={start.tool} finished, requests with its call={len(carriers)} with its result=0",
                    offer, finished, carriers[0],
                )  # fmt: skip


def _carriers(
    ledger: Ledger, call_id: str, start: ToolStarted, finished: ToolFinished, marks: list[str]
) -> list[RequestReceived]:
    """The later requests with the call; none, where one has the result too.

    Nor where the agent told the model something else before the result was there: a timeout, say.
    """
    carriers = []
    for request in reading.requests_after(ledger, start):
        if call_id in request.body:
            if request.seq < finished.seq or any(mark in request.body for mark in marks):
                return []
            carriers.append(request)
    return carriers


def _marks(result: str) -> list[str]:
    """The words by which a result is recognised: its nonce, and whatever else is long enough."""
    return findall(r"[A-Za-z0-9_-]{6,}", result)


_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", body="{}")
_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="record",
    arguments='{"x": "n1"}', nonce="n1", call_id="call_1",
)  # fmt: skip
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="record", invocation="i1", arguments={"x": "n1"})
_DONE = ToolFinished(witness=Witness.TOOL_SPY, tool="record", invocation="i1", result="done knonce1")
_NEXT = replace(_ASKED, request="r2", turn=2, body='{"tool_call_id": "call_1", "content": "done knonce1"}')
_LOST = replace(_NEXT, body='{"tool_call_id": "call_1", "content": "failed"}')
_REJECTED = TranscriptRejected(witness=Witness.ENDPOINT, request="r2", problem="call_1 has no result")
_TURN = [_ASKED, _CALL, _MARKER, _END, _RUN, _DONE]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A call without a result, or a result without a call, is refused by the provider, and the session "
        "is stuck; a result that is lost makes the model do it again."
    ),
    source="wire facts §3.1 to §3.5 (tool result in the next request); requirement A27; known defect 14",
    remedy=(
        "Answer every call of a turn with exactly one result, in the next request, also when a tool failed."
    ),
    occasion="a request after the first model turn",
    holds=[Ledger([*_TURN, _NEXT])],
    breaks=[Ledger([*_TURN, _NEXT, _REJECTED]), Ledger([*_TURN, _LOST])],
    silent=[
        Ledger([*_TURN, _NEXT, replace(_LOST, request="r3", turn=3)]),
        Ledger([*_TURN, replace(_LOST, body="{}")]),
        Ledger([*_TURN[:-1], _LOST, _DONE, replace(_LOST, request="r3", turn=3)]),
        Ledger([_ASKED, _CALL, _MARKER, _END, _RUN, replace(_DONE, result="ok"), _LOST]),
    ],
    idle=[Ledger(_TURN), Ledger([_ASKED, replace(_ASKED, request="r2")])],
)
