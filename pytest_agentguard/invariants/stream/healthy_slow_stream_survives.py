"""A stream that goes on steadily within the idle timeout is not given up, however long it takes in all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ReplyStarted, RunEnded, RunStarted, StreamEnded, Witness

_LATE = 0.8  # of the idle timeout: with a longer silence of our own, a timeout would be right
_FAR = 4.0  # times the pauses: a limit on the whole exchange that is longer than this plays no part


def check(ledger: Ledger) -> Iterator[Finding]:
    """Exercised only where the planned pauses together outlast the idle timeout and each kept within it."""
    for end, reply in reading.ended(ledger):
        if reply is None or reply.fault:
            continue
        idle = reading.limit_of(ledger, end, "idle_timeout")
        if idle is None or not _steady(ledger, reply, end, idle):
            continue
        outcome = reading.outcome_of(ledger, reply)
        facts = f"stream={end.stream} paused={reply.paused:g} gap={end.gap:g} idle_timeout={idle:g}"
        if end.end == "client-left" and not end.complete:
            if outcome is None or outcome.how not in ("cancelled", "killed"):
                yield exercised(reply, end)
                yield violated(
                    f"client left after sent={end.sent} planned={end.planned}, {facts}", reply, end
                )
        elif end.complete:
            yield exercised(reply, end)
            if outcome is not None and _failed(ledger, outcome):
                yield violated(
                    f"run how={outcome.how} answer={reading.brief(outcome.answer)}, {facts}",
                    reply, end, outcome,
                )  # fmt: skip


def _steady(ledger: Ledger, reply: ReplyStarted, end: StreamEnded, idle: float) -> bool:
    """Whether only the idle timeout could have ended this reply, and had no reason to."""
    other = (reading.limit_of(ledger, end, name) for name in ("request_timeout", "deadline"))
    shown = reply.paused > idle and end.gap < _LATE * idle
    return shown and all(limit is None or limit > _FAR * reply.paused for limit in other)


def _failed(ledger: Ledger, outcome: RunEnded) -> bool:
    """Whether the run missed its answer although nothing else was made to go wrong."""
    if not reading.is_healthy(ledger) or outcome.how in ("cancelled", "killed", "limited"):
        return False
    return outcome.how != "returned" or not reading.answers_truly(ledger, outcome)


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9", limits={"idle_timeout": 1.0})
_PATIENT = replace(_JOB, limits={"idle_timeout": 1.0, "request_timeout": 600.0})
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="stop", paused=2.0)
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, sent=400, planned=400, gap=0.3)
_LEFT = replace(_END, complete=False, end="client-left", sent=200)
_SUCCESS = RunEnded(witness=Witness.RUNNER, how="returned", answer="final-n9")
_RAISED = replace(_SUCCESS, how="raised", answer=None, error="timeout")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "An idle timeout that is applied to the whole exchange kills every long answer of a healthy "
        "provider, and the money for it is spent."
    ),
    source="wire facts §4.2; known defect 4",
    remedy=(
        "Restart the idle timeout at each piece that arrives; limit the whole only where that was asked for."
    ),
    occasion=(
        "a healthy reply whose pauses together outlast the declared idle timeout, each within it, and no "
        "limit on the whole exchange that comes near them"
    ),
    holds=[Ledger([_JOB, _REPLY, _END, _SUCCESS]), Ledger([_PATIENT, _REPLY, _END, _SUCCESS])],
    breaks=[
        Ledger([_JOB, _REPLY, _LEFT, _RAISED]),
        Ledger([_JOB, _REPLY, _END, _RAISED]),
        Ledger([_JOB, _REPLY, _LEFT]),
        Ledger([_PATIENT, _REPLY, _LEFT, _RAISED]),
        Ledger([_JOB, _REPLY, _LEFT, _SUCCESS]),
    ],
    silent=[
        Ledger([_JOB, _REPLY, replace(_LEFT, gap=0.9), _RAISED]),
        Ledger([_JOB, _REPLY, _LEFT, replace(_RAISED, how="cancelled")]),
        Ledger([_JOB, replace(_REPLY, paused=0.5), _LEFT, _RAISED]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={"idle_timeout": 1.0, "deadline": 1.5}), _REPLY, _LEFT, _RAISED]),
        Ledger([replace(_JOB, limits={}), _REPLY, _LEFT, _RAISED]),
        Ledger([_JOB, replace(_REPLY, fault="cut"), _LEFT, _RAISED]),
    ],
)
