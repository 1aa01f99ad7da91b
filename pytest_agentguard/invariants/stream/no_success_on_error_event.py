"""A run that got an error from the provider, and no whole turn after it, does not report success."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ErrorSent, ReplyStarted, RunEnded, RunStarted, StreamEnded, Witness


def check(ledger: Ledger) -> Iterator[Finding]:
    """The stream of the error never counts as whole, whatever followed the error in it."""
    for error in ledger.of(ErrorSent):
        for end in ledger.of(StreamEnded, stream=error.stream, fired=True):
            reply = reading.reply_of(ledger, end)
            outcome = reading.outcome_of(ledger, reply or error)
            bare = error.where == "body" and reply is not None and not reply.finish
            if outcome is None or bare:  # a page or an error body alone is for ``no-success-on-non-stream``
                continue
            yield exercised(error, outcome)
            if reading.false_success(ledger, end) is not None:
                yield violated(
                    f"run returned, error={error.kind} where={error.where} stream={end.stream}, "
                    f"answer={reading.brief(outcome.answer)}",
                    error, end, outcome,
                )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9")
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="stop", fault="error-event")
_ERROR = ErrorSent(witness=Witness.ENDPOINT, stream="s1", kind="overloaded", where="event")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_RETRY = ReplyStarted(witness=Witness.ENDPOINT, stream="s2", request="r2", finish="stop")
_WHOLE = StreamEnded(witness=Witness.ENDPOINT, stream="s2", complete=True)
_SUCCESS = RunEnded(witness=Witness.RUNNER, how="returned", answer="the answer is final-n9")
_HALF = replace(_SUCCESS, answer="the answer")
_RAISED = replace(_SUCCESS, how="raised", answer=None, error="overloaded")
_STATUS = replace(_REPLY, status=503, finish="", fault="status-503")
_STATUS_ERROR = replace(_ERROR, where="status")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="The provider said in so many words that this is not an answer.",
    source="wire facts §3 (errors in mid-stream), §6, §7 trap 12; requirement A18",
    remedy="Raise on an error event or an error status, also when the completion marker follows it.",
    occasion="an error was sent, in the stream or as a status, and the end of the run was witnessed",
    holds=[
        Ledger([_JOB, _REPLY, _ERROR, _END, _RAISED]),
        Ledger([_JOB, _STATUS, _STATUS_ERROR, _END, _RAISED]),
        Ledger([_JOB, _REPLY, _ERROR, _END, _RETRY, _WHOLE, _SUCCESS]),
    ],
    breaks=[
        Ledger([_JOB, _REPLY, _ERROR, _END, _HALF]),
        Ledger([_JOB, _REPLY, _ERROR, replace(_END, complete=True), _SUCCESS]),
        Ledger([_JOB, _STATUS, _STATUS_ERROR, _END, _HALF]),
        Ledger([_JOB, _REPLY, _ERROR, _END, _RETRY, _WHOLE, _HALF]),
    ],
    silent=[Ledger([_JOB, _RETRY, _WHOLE, _SUCCESS])],
    idle=[
        Ledger([_JOB, _REPLY, _ERROR, _END]),
        Ledger([_JOB, _REPLY, _ERROR, replace(_END, end="client-left", fired=False), _HALF]),
        Ledger([_JOB, replace(_REPLY, fault="html", finish=""), replace(_ERROR, where="body"), _END, _HALF]),
    ],
)
