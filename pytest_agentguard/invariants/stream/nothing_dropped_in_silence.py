"""A whole call is run, refused or reported, and the text of a whole final answer comes back."""

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
    ToolMiscalled,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A turn that was asked for again is no occasion: the agent may have given the first one up."""
    for offer, end in reading.permitted_calls(ledger):
        outcome = reading.outcome_of(ledger, offer)
        if outcome is None or not _delivered(end) or _asked_again(ledger, end):
            continue
        yield exercised(offer, outcome)
        if outcome.how == "returned" and not _noticed(ledger, offer, outcome):
            yield violated(
                f"run returned, tool={offer.tool} call_id={offer.call_id}: "
                "started=False refused to the model=False reported=False",
                offer, end, outcome,
            )  # fmt: skip
    yield from _answers(ledger)


def _answers(ledger: Ledger) -> Iterator[Finding]:
    """A reply with nothing but the final answer; its nonce is what a real success returns."""
    for reply in ledger.of(ReplyStarted, finish="stop"):
        run, outcome = reading.run_of(ledger, reply), reading.outcome_of(ledger, reply)
        if run is None or outcome is None or not run.final or run.final not in reply.text:
            continue
        for end in ledger.of(StreamEnded, stream=reply.stream, complete=True):
            if ledger.of(CallOffered, stream=end.stream) or not _delivered(end) or _asked_again(ledger, end):
                continue
            yield exercised(reply, end, outcome)
            if outcome.how == "returned" and run.final not in (outcome.answer or ""):
                yield violated(
                    f"run returned, answer={reading.brief(outcome.answer)} "
                    f"offered={reading.brief(reply.text)}",
                    reply, end, outcome,
                )  # fmt: skip


def _delivered(end: StreamEnded) -> bool:
    return end.end in ("clean", "client-left")


def _asked_again(ledger: Ledger, end: StreamEnded) -> bool:
    reply = reading.reply_of(ledger, end)
    asked = ledger.first(RequestReceived, request=reply.request) if reply is not None else None
    return asked is not None and reading.asked_again(ledger, asked)


def _noticed(ledger: Ledger, offer: CallOffered, outcome: RunEnded) -> bool:
    """Whether the tool was called, or a later request or the answer mentions the call."""
    if ledger.of(ToolStarted, call=offer.call):
        return True
    if ledger.after(offer, ToolMiscalled, tool=offer.tool):  # Python refused it, and the agent was told
        return True
    if any(start.call in ("", "?") for start in ledger.after(offer, ToolStarted, tool=offer.tool)):
        return True
    names = [name for name in (offer.tool, offer.call_id, offer.nonce) if name]
    reported = reading.added_by(ledger, offer, outcome)
    return any(name in reported for name in names) or reading.told(ledger, offer) is not None


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9")
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", body="{1}")
_REPLY = ReplyStarted(
    witness=Witness.ENDPOINT, stream="s1", request="r1", text="Let me record.", finish="tool_calls"
)
_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="record",
    arguments='{"x": "n1"}', nonce="n1", call_id="call_1",
)  # fmt: skip
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="record", arguments={"x": "n1"})
_TOLD = RequestReceived(witness=Witness.ENDPOINT, request="r2", turn=2, body='{"tool_call_id": "call_1"}')
_AGAIN = replace(_TOLD, body="{1}")
_RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="Let me record.")
_TWIN = replace(_CALL, call="s1.c2", arguments='{"x": "n2"}', nonce="n2")
_ONE_TOLD = replace(_TOLD, body='{"id": "call_1", "arguments": "n1"}, {"tool_call_id": "call_1"}')
_OFFER = [_JOB, _ASKED, _REPLY, _CALL, _MARKER, _END]
_TEXT = [
    _JOB, _ASKED, replace(_REPLY, finish="stop", text="The answer is final-n9"), _MARKER,
    replace(_END, begun=(), whole=()),
]  # fmt: skip

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="A call or an answer that vanishes is reported as done, and nobody looks for it.",
    source="wire facts §6, §7 traps 2 and 3",
    remedy=(
        "Run every whole call, or answer it with an error result, or fail the run; return the text that came."
    ),
    occasion="a complete reply with a call, or with the final answer, and the end of the run was witnessed",
    holds=[
        Ledger([*_OFFER, _RUN, _RETURNED]),
        Ledger([*_OFFER, _TOLD, _RETURNED]),
        Ledger([*_OFFER, replace(_RETURNED, how="raised", answer=None)]),
        Ledger([*_TEXT, replace(_RETURNED, answer="The answer is final-n9")]),
    ],
    breaks=[
        Ledger([*_OFFER, _RETURNED]),
        Ledger([*_OFFER, replace(_TOLD, body="{2}"), _RETURNED]),
        Ledger([_JOB, _ASKED, _REPLY, _CALL, _TWIN, _MARKER, _END, _RUN, _ONE_TOLD, _RETURNED]),
        Ledger([*_TEXT, replace(_RETURNED, answer="")]),
    ],
    silent=[
        Ledger([*_OFFER, replace(_RETURNED, answer="record was refused by policy")]),
        Ledger([*_OFFER, _AGAIN, _RETURNED]),
        Ledger([_JOB, _ASKED, _REPLY, _CALL, _TWIN, _MARKER, _END, _TOLD, _RETURNED]),
    ],
    idle=[
        Ledger(_OFFER),
        Ledger([_JOB, _ASKED, _REPLY, _CALL, replace(_MARKER, permits=False), _END, _RETURNED]),
        Ledger([_JOB, _ASKED, _REPLY, _CALL, replace(_END, complete=False), _RETURNED]),
    ],
)
