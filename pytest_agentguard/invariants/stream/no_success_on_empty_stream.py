"""A run that got an empty body, or nothing but the completion marker, does not report success."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ReplyStarted, RunEnded, RunStarted, StreamEnded, Witness

_EMPTY = ("nothing", "only-done")


def check(ledger: Ledger) -> Iterator[Finding]:
    """An agent that asks again and gets its answer has done nothing wrong."""
    for end, reply in reading.ended(ledger):
        if reply is None or reply.fault not in _EMPTY or not end.fired:
            continue
        outcome = reading.outcome_of(ledger, reply)
        if outcome is None:
            continue
        yield exercised(reply, end, outcome)
        if reading.false_success(ledger, end) is not None:
            yield violated(
                f"run returned, stream={end.stream} sent={end.sent} fault={reply.fault}, "
                f"answer={reading.brief(outcome.answer)}",
                reply, end, outcome,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9")
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", fault="nothing")
_DONE = replace(_REPLY, fault="only-done")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_RETRY = ReplyStarted(witness=Witness.ENDPOINT, stream="s2", request="r2")
_WHOLE = StreamEnded(witness=Witness.ENDPOINT, stream="s2", complete=True)
_EMPTY_ANSWER = RunEnded(witness=Witness.RUNNER, how="returned", answer="")
_SUCCESS = replace(_EMPTY_ANSWER, answer="final-n9")
_RAISED = replace(_EMPTY_ANSWER, how="raised", answer=None)

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="An empty answer that counts as success hides an outage as if the model had nothing to say.",
    source="wire facts §4.3 (empty body); requirement A18",
    remedy="Raise when a stream ends without a single event of the model.",
    occasion=(
        "a reply with status 200 and an empty body, or nothing but the marker; the end of the run witnessed"
    ),
    holds=[
        Ledger([_JOB, _REPLY, _END, _RAISED]),
        Ledger([_JOB, _DONE, _END, _RAISED]),
        Ledger([_JOB, _REPLY, _END, _RETRY, _WHOLE, _SUCCESS]),
    ],
    breaks=[
        Ledger([_JOB, _REPLY, _END, _EMPTY_ANSWER]),
        Ledger([_JOB, _DONE, _END, _EMPTY_ANSWER]),
        Ledger([_JOB, _REPLY, _END, _RETRY, _WHOLE, _EMPTY_ANSWER]),
    ],
    silent=[Ledger([_JOB, _RETRY, _WHOLE, _SUCCESS])],
    idle=[
        Ledger([_JOB, _REPLY, _END]),
        Ledger([_JOB, replace(_REPLY, fault="cut"), _END, _EMPTY_ANSWER]),
    ],
)
