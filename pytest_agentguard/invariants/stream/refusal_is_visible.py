"""A turn that a filter stopped or the model refused does not come back as if it were an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ReplyStarted, RunEnded, RunStarted, StreamEnded, Witness

_STOPPED = ("filter", "refusal")
# words that say so when the agent adds them; the offered text itself is taken out before they are looked for
_SIGNS = (
    "refus",
    "filter",
    "declin",
    "safety",
    "policy",
    "block",
    "moderat",
    "violat",
    "stop_reason",
    "finish_reason",
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A normal return is visible only if the answer says so in words that the model did not write."""
    for reply in ledger.of(ReplyStarted):
        if reply.finish not in _STOPPED:
            continue
        outcome = reading.outcome_of(ledger, reply)
        for end in ledger.of(StreamEnded, stream=reply.stream, complete=True):
            if outcome is None:
                continue
            yield exercised(reply, end, outcome)
            if reading.false_success(ledger, end) is not None and not _says_so(reply, outcome):
                yield violated(
                    f"run returned, finish={reply.finish} stream={end.stream}, "
                    f"answer={reading.brief(outcome.answer)}",
                    reply, end, outcome,
                )  # fmt: skip


def _says_so(reply: ReplyStarted, outcome: RunEnded) -> bool:
    answer = outcome.answer or ""
    added = answer.replace(reply.text, " ") if reply.text else answer
    return any(sign in added.lower() for sign in _SIGNS)


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9")
_REPLY = ReplyStarted(
    witness=Witness.ENDPOINT, stream="s1", request="r1", text="The number is", finish="filter"
)
_REFUSED = replace(_REPLY, finish="refusal")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True)
_RETRY = ReplyStarted(witness=Witness.ENDPOINT, stream="s2", request="r2", text="final-n9", finish="stop")
_WHOLE = StreamEnded(witness=Witness.ENDPOINT, stream="s2", complete=True)
_RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="The number is")
_RAISED = replace(_RETURNED, how="raised", answer=None, error="content filter")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="A program that reads the answer takes the words before the stop for the answer, and acts on them.",
    source="wire facts §3 (finish reasons), §6, §7 trap 16",
    remedy="Raise, or return a status of its own, when the finish reason is a filter or a refusal.",
    occasion=(
        "a whole reply whose finish reason is a filter or a refusal, and the end of the run was witnessed"
    ),
    holds=[
        Ledger([_JOB, _REPLY, _END, _RAISED]),
        Ledger([_JOB, _REFUSED, _END, replace(_RAISED, how="failed")]),
    ],
    breaks=[
        Ledger([_JOB, _REPLY, _END, _RETURNED]),
        Ledger([_JOB, _REFUSED, _END, _RETURNED]),
        Ledger([_JOB, _REPLY, _END, replace(_RETURNED, answer="")]),
    ],
    silent=[
        Ledger([_JOB, _REPLY, _END, replace(_RETURNED, answer="[content filter] The number is")]),
        Ledger([_JOB, _REPLY, _END, _RETRY, _WHOLE, replace(_RETURNED, answer="final-n9")]),
    ],
    idle=[
        Ledger([_JOB, _REPLY, _END]),
        Ledger([_JOB, replace(_REPLY, finish="stop"), _END, _RETURNED]),
        Ledger([_JOB, _REPLY, replace(_END, complete=False), _RETURNED]),
    ],
)
