"""When a response ends without its reply, whoever waited for it learns so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    Event,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    ToolStarted,
    Witness,
)

_OVER = ("clean", "cut", "reset")  # ends by which the client has all that will ever come
_NO_REPLY = ("dropped", "cut", "reset")


def check(ledger: Ledger) -> Iterator[Finding]:
    """A run that its hard deadline had to end, with nothing else under way, waited for what was over."""
    for end in ledger.of(StreamEnded, complete=False):
        reply = reading.reply_of(ledger, end)
        if end.end in _OVER and (reply is None or reply.status == 200):
            yield from _resolved(ledger, end, f"stream={end.stream} end={end.end} sent={end.sent}")
    for answer in ledger.of(HttpAnswered, failed=True):
        if answer.end in _NO_REPLY:
            yield from _resolved(
                ledger, answer, f"request={answer.request} end={answer.end} sent={answer.sent}"
            )


def _resolved(ledger: Ledger, over: StreamEnded | HttpAnswered, facts: str) -> Iterator[Finding]:
    outcome = reading.outcome_of(ledger, over)
    step = _next_step(ledger, over)
    if step is not None and (outcome is None or step.seq < outcome.seq):
        yield exercised(over, step)
    elif outcome is not None and outcome.how == "killed":
        if not _is_elsewhere(ledger, over):
            yield exercised(over, outcome)
            yield violated(f"nobody went on, {facts}: how={outcome.how} at the hard deadline", over, outcome)
    elif outcome is not None:
        yield exercised(over, outcome)


def _next_step(ledger: Ledger, over: Event) -> Event | None:
    """What the agent did next: asked again, ran a tool, or ended its call."""
    steps: list[Event | None] = [
        next(reading.requests_after(ledger, over), None),
        ledger.first_after(over, HttpReceived),
        ledger.first_after(over, ToolStarted),
        ledger.first_after(over, FetchEnded),
    ]
    return min((step for step in steps if step is not None), key=lambda step: step.seq, default=None)


def _is_elsewhere(ledger: Ledger, over: StreamEnded | HttpAnswered) -> bool:
    """Whether it may have waited for something else: in a tool, or before it tries once more."""
    if ledger.before(over, ToolStarted) or len(ledger.of(FetchStarted)) > 1:
        return True
    failed = [end for end in ledger.before(over, StreamEnded) if not end.complete]
    return bool(failed or ledger.before(over, HttpAnswered))


_JOB = RunStarted(witness=Witness.RUNNER)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1")
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", fault="cut")
_CUT = StreamEnded(
    witness=Witness.ENDPOINT, stream="s1", complete=False, end="cut", planned_end="cut", sent=40
)
_RAISED = RunEnded(witness=Witness.RUNNER, how="raised", error="incomplete")
_KILLED = RunEnded(witness=Witness.RUNNER, how="killed", error="still running after 10 s")
_NEXT = replace(_ASKED, request="r2")
_CHAT = [_JOB, _ASKED, _REPLY, _CUT]

_CALLED = FetchStarted(witness=Witness.RUNNER, call="f1", input="drop")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:80/drop")
_DROPPED = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", end="dropped", failed=True)
_FAILED = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="no answer")
_FETCH = [_JOB, _CALLED, _ARRIVED, _DROPPED]

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why=(
        "A reader that stops without telling anybody leaves a request that is waited for until somebody "
        "kills it."
    ),
    source="wire facts §2 (E2 to E5), §5 (stream ended without a response)",
    remedy="When a reader ends, for whatever reason, fail everything that still waits for an answer from it.",
    occasion="a response that ended without its reply, and what the agent did next or how its run ended",
    holds=[Ledger([*_CHAT, _RAISED]), Ledger([*_CHAT, _NEXT, _KILLED]), Ledger([*_FETCH, _FAILED])],
    breaks=[Ledger([*_CHAT, _KILLED]), Ledger([*_FETCH, _KILLED])],
    silent=[
        Ledger([*_CHAT, replace(_ASKED, request="r2"), replace(_CUT, stream="s2"), _KILLED]),
        Ledger([_JOB, _ASKED, _REPLY, replace(_CUT, end="stalled", planned_end="stalled"), _KILLED]),
        Ledger([_JOB, ToolStarted(witness=Witness.TOOL_SPY, tool="record"), *_CHAT[1:], _KILLED]),
    ],
    idle=[
        Ledger(),
        Ledger(_CHAT),
        Ledger(
            [_JOB, _ASKED, _REPLY, replace(_CUT, complete=True, end="clean", planned_end="clean"), _KILLED]
        ),
        Ledger([_JOB, _ASKED, _REPLY, replace(_CUT, end="client-left"), _RAISED]),
    ],
)
