"""A run whose answer was cut off, and never completed by a later request, does not report success."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ReplyStarted, RunEnded, RunStarted, StreamEnded, Witness

# these have rules of their own
_ELSEWHERE = (
    "error-event", "nothing", "only-done", "html", "challenge", "json-error", "content-type", "raw-body",
    "redirect",
)  # fmt: skip


def check(ledger: Ledger) -> Iterator[Finding]:
    """A reply with an error status, without a turn or with an error event belongs to the other rules."""
    for end in reading.broken_off(ledger):
        reply = reading.reply_of(ledger, end)
        if reply is not None and (reply.status != 200 or reply.fault in _ELSEWHERE):
            continue
        outcome = reading.outcome_of(ledger, reply or end)
        if outcome is None:
            continue
        yield exercised(end, outcome)
        if reading.false_success(ledger, end) is not None:
            yield violated(
                f"run returned, stream={end.stream} complete=False end={end.end}, "
                f"answer={reading.brief(outcome.answer)}",
                end, outcome,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9")
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", fault="cut")
_CUT = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_RETRY = ReplyStarted(witness=Witness.ENDPOINT, stream="s2", request="r2")
_WHOLE = StreamEnded(witness=Witness.ENDPOINT, stream="s2", complete=True)
_SUCCESS = RunEnded(witness=Witness.RUNNER, how="returned", answer="the answer is final-n9")
_HALF = replace(_SUCCESS, answer="the answer")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="Half an answer can say the opposite of the whole one, and the caller cannot see that it is half.",
    source="wire facts §2 (E2 to E6), §4.3, §6; requirements A18, A20; known defect 3",
    remedy="Treat a body that ends without the completion marker as a failed request: try again or raise.",
    occasion="a reply ended without its completion, and the end of the run was witnessed",
    holds=[
        Ledger([_JOB, _REPLY, _CUT, replace(_HALF, how="raised", answer=None)]),
        Ledger([_JOB, _REPLY, _CUT, _RETRY, _WHOLE, _SUCCESS]),
    ],
    breaks=[
        Ledger([_JOB, _REPLY, _CUT, _HALF]),
        Ledger([_JOB, _REPLY, _CUT, _SUCCESS]),
        Ledger([_JOB, _REPLY, _CUT, _RETRY, _WHOLE, _HALF]),
    ],
    silent=[
        Ledger([_JOB, replace(_REPLY, fault=""), replace(_CUT, complete=True), _SUCCESS]),
        Ledger([_JOB, _REPLY, _RETRY, _WHOLE, _CUT, _SUCCESS]),
        Ledger([_JOB, _REPLY, _CUT, replace(_HALF, how="limited")]),
    ],
    idle=[
        Ledger([_JOB, _REPLY, _CUT]),
        Ledger([_JOB, replace(_REPLY, fault="html"), _CUT, _HALF]),
        Ledger([_JOB, replace(_REPLY, status=503, fault="status-503"), _CUT, _HALF]),
        Ledger([_JOB, _REPLY, replace(_CUT, end="client-left", fired=False), _HALF]),
    ],
)
