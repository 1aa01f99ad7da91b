"""A run that ended because a cap was reached can be told from one that finished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    Event,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    Witness,
)

# words that say so when the agent adds them; what the model said is taken out before they are looked for
_SIGNS = (
    "limit", "max", "exceed", "exhaust", "budget", "quota", "stopp", "abort", "gave up", "giving up",
    "too many", "attempt", "retr", "rounds", "steps", "turns", "iterations", "error", "fail",
    "unavailable", "refus", "denied", "timeout", "timed out", "not complete", "unable", "could not",
)  # fmt: skip


def check(ledger: Ledger) -> Iterator[Finding]:
    """A normal return is visible only if it says so in words that the model did not write."""
    for cap, reached in _caps(ledger):
        outcome = reading.outcome_of(ledger, reached)
        run = reading.run_of(ledger, reached)
        if outcome is None or run is None or not run.final:
            continue
        yield exercised(reached, outcome)
        if outcome.how != "returned" or reading.answers_truly(ledger, outcome):
            continue
        if not _says_so(_added(ledger, outcome.answer or "")):
            yield violated(
                f"run returned after {cap} was reached, answer={reading.brief(outcome.answer)}",
                reached, outcome,
            )  # fmt: skip
    yield from _fetches(ledger)


def _caps(ledger: Ledger) -> Iterator[tuple[str, Event]]:
    """Every cap of a run that was reached, with the fact that reached it."""
    for budget in reading.budgets(ledger):
        made = budget.attempts
        if (
            budget.turn
            and budget.streams == 1
            and len(made) >= budget.allowed
            and all(a.failed for a in made)
        ):
            yield f"attempts={budget.declared:g}", made[-1].asked
    offered = list(reading.permitted_calls(ledger))
    for run, made in reading.attempts_by_run(ledger):
        asked = reading.model_turns(made)
        if not asked or reading.streams_of(ledger, asked) > 1:
            continue
        streams = {a.answer.stream for a in asked if isinstance(a.answer, ReplyStarted)}
        calls = [offer for offer, _ in offered if offer.stream in streams]
        rounds, tool_calls = reading.declared(run, "rounds"), reading.declared(run, "tool_calls")
        last = asked[-1].answer
        asks = isinstance(last, ReplyStarted) and any(call.stream == last.stream for call in calls)
        if rounds is not None and asks and len({a.turn for a in asked}) >= rounds:
            yield f"rounds={rounds:g}", asked[-1].asked
        if tool_calls is not None and len(calls) > tool_calls:
            yield f"tool_calls={tool_calls:g}", calls[-1]


def _added(ledger: Ledger, answer: str) -> str:
    for reply in ledger.of(ReplyStarted):
        answer = answer.replace(reply.text, " ") if reply.text else answer
    return answer


def _says_so(text: str) -> bool:
    return any(sign in text.lower() for sign in _SIGNS)


def _fetches(ledger: Ledger) -> Iterator[Finding]:
    """A use of a fetch tool for which no attempt was left, in a run in which no request has succeeded."""
    for budget in reading.budgets(ledger):
        made = budget.attempts
        if budget.turn or len(made) < budget.allowed or not all(a.failed for a in made):
            continue
        spent = made[int(budget.allowed) - 1].asked if budget.allowed >= 1 else made[0].asked
        ends = {end.call: end for end in ledger.after(spent, FetchEnded)}
        for start in ledger.after(spent, FetchStarted, allowed=True):
            end = ends.get(start.call)
            if end is None:
                continue
            yield exercised(spent, start, end)
            if end.how == "returned" and not _says_so(end.result):
                yield violated(
                    f"call={end.call} returned, {budget.what} used up, result={reading.brief(end.result)}",
                    spent, start, end,
                )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9", limits={"attempts": 1, "rounds": 1})
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1)
_REFUSED = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", status=503, fault="status-503")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_FAILED = [_JOB, _ASKED, _REFUSED, _END]
_TEXT = "Let me record that."
_CALLS = [
    _JOB,
    _ASKED,
    replace(_REFUSED, status=200, fault="", finish="tool_calls", text=_TEXT),
    CallOffered(witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="record", nonce="n1"),
    StreamCompleted(witness=Witness.ENDPOINT, stream="s1"),
    replace(_END, complete=True),
]
_RAISED = RunEnded(witness=Witness.RUNNER, how="raised", error="no attempt is left")
_RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="")
_SAID = replace(_RETURNED, answer=_TEXT)
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/report")
_DROPPED = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", end="dropped", failed=True)
_USE = FetchStarted(witness=Witness.RUNNER, call="f1", input="report")
_SPENT = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="no attempt is left")
_FETCH = [_JOB, _HTTP, _DROPPED, _USE]

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="Half of the work is taken for all of it, by the caller and by whatever acts on the answer.",
    source="requirements B05, D04",
    remedy="End such a run with an error of its own, or with a status that says which limit was reached.",
    occasion="every declared attempt failed, the last declared round asked for a tool, or more tool calls "
    "were asked for than are declared, and the end was witnessed",
    holds=[
        Ledger([*_FAILED, _RAISED]),
        Ledger([*_CALLS, replace(_RAISED, how="limited")]),
        Ledger([*_FETCH, _SPENT]),
    ],
    breaks=[
        Ledger([*_FAILED, _RETURNED]),
        Ledger([*_CALLS, _SAID]),
        Ledger([replace(_JOB, limits={"tool_calls": 0.5}), *_CALLS[1:], _SAID]),
        Ledger([*_FETCH, replace(_SPENT, how="returned", error="", result="nothing new")]),
    ],
    silent=[
        Ledger([*_CALLS, replace(_SAID, answer=f"{_TEXT} Agent stopped: max iterations.")]),
        Ledger([*_CALLS, replace(_SAID, answer="The answer is final-n9")]),
        Ledger([*_FETCH, replace(_SPENT, how="returned", error="", result="error: budget used up")]),
        Ledger([_JOB, _HTTP, replace(_DROPPED, failed=False), _USE, replace(_SPENT, how="returned")]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={"attempts": 2}), *_FAILED[1:], _RETURNED]),
        Ledger([replace(_JOB, final=""), *_FAILED[1:], _RETURNED]),
        Ledger([replace(_JOB, limits={"rounds": 2}), *_CALLS[1:], _SAID]),
        Ledger(_FAILED),
    ],
)
