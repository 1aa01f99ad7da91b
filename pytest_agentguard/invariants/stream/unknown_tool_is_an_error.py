"""A call to a tool that was not offered starts no other tool, and the model or the caller hears of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    RequestReceived,
    RunEnded,
    StreamCompleted,
    StreamEnded,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A start belongs to the call by its nonce, or because it belongs to no call and comes right after it."""
    for offer, end in reading.permitted_calls(ledger):
        if offer.known:
            continue
        yield exercised(offer, end)
        for start in _instead(ledger, offer):
            yield violated(f"tool={start.tool} started, offered={offer.tool} known=False", offer, end, start)
        outcome = reading.outcome_of(ledger, offer)
        if outcome is not None and outcome.how == "returned" and not _heard(ledger, offer, outcome):
            yield violated(
                f"run returned, tool={offer.tool} known=False, reported to the model=False",
                offer,
                end,
                outcome,
            )


def _instead(ledger: Ledger, offer: CallOffered) -> Iterator[ToolStarted]:
    yield from ledger.of(ToolStarted, call=offer.call)
    outcome = reading.outcome_of(ledger, offer)
    if outcome is None:  # no runner: a test may have called its own tool
        return
    until = next(reading.requests_after(ledger, offer), outcome).seq
    yield from (s for s in ledger.after(offer, ToolStarted, call="") if s.seq < until)


def _heard(ledger: Ledger, offer: CallOffered, outcome: RunEnded) -> bool:
    """Whether a later request or the answer mentions the call, or the tool that does not exist."""
    if reading.told(ledger, offer) is not None:
        return True
    texts = (request.body for request in reading.requests_after(ledger, offer))
    return offer.tool in reading.added_by(ledger, offer, outcome) or any(offer.tool in text for text in texts)


_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="destroy",
    arguments='{"x": "n1"}', nonce="n1", call_id="call_1", known=False,
)  # fmt: skip
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_TOLD = RequestReceived(witness=Witness.ENDPOINT, request="r2", turn=2, body='{"tool_call_id": "call_1"}')
_SAME = replace(_TOLD, body="{}")
_RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="done")
_RAISED = replace(_RETURNED, how="raised", answer=None)
_OTHER = ToolStarted(witness=Witness.TOOL_SPY, tool="record", arguments={"x": "n1"})

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why=(
        "A model invents tool names. The nearest real tool is not what it asked for, and a run that "
        "passes over the call in silence reports work that nobody did."
    ),
    source="wire facts §6",
    remedy="Answer a call to an unknown tool with an error result for the model, or fail the run.",
    occasion="a whole call, in a complete reply, to a tool that the request did not offer",
    holds=[
        Ledger([_CALL, _MARKER, _END, _TOLD, _RETURNED]),
        Ledger([_CALL, _MARKER, _END, _RAISED]),
    ],
    breaks=[
        Ledger([_CALL, _MARKER, _END, _RETURNED]),
        Ledger([_CALL, _MARKER, _END, _SAME, _RETURNED]),
        Ledger([_CALL, _MARKER, _END, _OTHER, _TOLD, _RETURNED]),
        Ledger([_CALL, _MARKER, _END, replace(_OTHER, arguments={}), _RAISED]),
    ],
    silent=[
        Ledger([_CALL, _MARKER, _END, replace(_RETURNED, answer="there is no tool destroy")]),
        Ledger([replace(_CALL, known=True, tool="record"), _MARKER, _END, _OTHER, _TOLD, _RETURNED]),
    ],
    idle=[Ledger([_CALL, replace(_END, complete=False), _RETURNED])],
)
