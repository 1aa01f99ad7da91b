"""What a failed turn or request had already done is not done again in silence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    EffectDone,
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

_NOT_REPEATABLE = ("POST", "PATCH")  # HTTP lets a client repeat all others


def check(ledger: Ledger) -> Iterator[Finding]:
    """In silence is: by the very request that had led to the effect, so that nobody was told of it."""
    yield from _tools(ledger)
    yield from _effects(ledger)


@dataclass(slots=True)
class _Seen:
    """What is known of a run so far: effects by the request that led to them, and the last failure."""

    effects: dict[tuple[str, str], tuple[int, dict[str, ToolStarted]]] = field(default_factory=dict)
    failed_at: int = -1
    failure: reading.Attempt | None = None


def _tools(ledger: Ledger) -> Iterator[Finding]:
    ran = _ran(ledger)
    for _, made in reading.attempts_by_run(ledger):
        asked = reading.model_turns(made)
        if reading.streams_of(ledger, asked) > 1:
            continue
        seen = _Seen()
        for number, attempt in enumerate(asked):
            yield from _replayed(seen, number, attempt, ran)


def _replayed(
    seen: _Seen, number: int, attempt: reading.Attempt, ran: dict[str, dict[str, ToolStarted]]
) -> Iterator[Finding]:
    assert isinstance(attempt.asked, RequestReceived)
    said = attempt.asked.path, attempt.asked.body
    stream = attempt.answer.stream if isinstance(attempt.answer, ReplyStarted) else ""
    before, earlier = seen.effects.get(said, (number, {}))
    if seen.failure is not None and before <= seen.failed_at:
        for call, start in ran.get(stream, {}).items():
            if call in earlier:
                yield violated(
                    f"tool={start.tool} started again by request={attempt.request}, the same as before "
                    f"failed request={seen.failure.request}",
                    earlier[call], *seen.failure.evidence, start,
                )  # fmt: skip
    if stream in ran:
        seen.effects[said] = number, ran[stream]
    if attempt.failed:
        seen.failed_at, seen.failure = number, attempt
        for _, starts in list(seen.effects.values())[:1]:
            yield exercised(next(iter(starts.values())), *attempt.evidence)


def _ran(ledger: Ledger) -> dict[str, dict[str, ToolStarted]]:
    """By stream, the calls of it that a tool was started for, without their nonce."""
    offers = {offer.call: offer for offer in ledger.of(CallOffered)}
    found: dict[str, dict[str, ToolStarted]] = {}
    for start in ledger.of(ToolStarted):
        offer = offers.get(start.call)
        if offer is not None:
            bare = offer.arguments.replace(offer.nonce, "") if offer.nonce else offer.arguments
            found.setdefault(offer.stream, {}).setdefault(f"{offer.tool} {bare}", start)
    return found


def _effects(ledger: Ledger) -> Iterator[Finding]:
    """Effects at the counting server; a key that stays the same lets a server tell a repetition."""
    done = {effect.request: effect for effect in reversed(ledger.of(EffectDone))}
    for attempt, later in reading.followed(ledger):
        first, effect = attempt.asked, done.get(attempt.request)
        if not isinstance(first, HttpReceived) or first.method not in _NOT_REPEATABLE:
            continue
        if effect is None or not attempt.failed or (later is not None and later.asked.seq < effect.seq):
            continue
        yield exercised(first, effect)
        again = done.get(later.request) if later is not None else None
        if later is None or again is None or not reading.is_same_request(attempt, later):
            continue
        if not first.key or not isinstance(later.asked, HttpReceived) or later.asked.key != first.key:
            yield violated(
                f"effect of request={attempt.request} done again by request={later.request}, "
                f"key={first.key or 'absent'}",
                first, effect, later.asked, again,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, body="{1}")
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="tool_calls")
_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay", arguments='{"x": "n1"}', nonce="n1"
)
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True)
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", stream="s1", call="s1.c1", arguments={"x": "n1"})
_TOLD = replace(_ASKED, request="r2", turn=2, body="{1, result}")
_FAILED = [
    _TOLD, replace(_REPLY, request="r2", stream="s2", finish="stop", fault="reset"),
    replace(_END, stream="s2", complete=False, end="reset", planned_end="reset"),
]  # fmt: skip
_STORY = [_JOB, _ASKED, _REPLY, _CALL, _END, _RUN, *_FAILED]
_AGAIN = replace(_ASKED, request="r3", turn=2)
_REPLAY = [
    replace(_REPLY, request="r3", stream="s3"),
    replace(_CALL, stream="s3", call="s3.c1", arguments='{"x": "n3"}', nonce="n3"),
    replace(_END, stream="s3"),
]
_RUN_AGAIN = replace(_RUN, stream="s3", call="s3.c1", arguments={"x": "n3"})
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="connection lost")
_POST = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://h/orders", method="POST")
_EFFECT = EffectDone(witness=Witness.COUNTING_SERVER, request="h1", route="/orders", count=1)
_DROPPED = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", end="dropped", failed=True)
_REPOST = replace(_POST, request="h2")
_SECOND = [_REPOST, replace(_EFFECT, request="h2", count=2)]
_ORDER = [_JOB, _POST, _EFFECT, _DROPPED]

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="The customer pays twice: once for the attempt whose answer was lost, once for its repetition.",
    source="requirements B10, B16, D04",
    remedy=(
        "Go on from what has been done, tell the model what is not known, or repeat under an idempotency key."
    ),
    occasion="a tool that ran, or an effect at the server, and a failure after it",
    holds=[Ledger([*_STORY, _ENDED]), Ledger([*_ORDER, _ENDED])],
    breaks=[
        Ledger([*_STORY, _AGAIN, *_REPLAY, _RUN_AGAIN, _ENDED]),
        Ledger([*_ORDER, *_SECOND, _ENDED]),
    ],
    silent=[
        Ledger([*_STORY, _AGAIN, *_REPLAY, _ENDED]),
        Ledger([*_STORY, replace(_AGAIN, body="{1, result}"), *_REPLAY, _RUN_AGAIN, _ENDED]),
        Ledger([_JOB, replace(_POST, key="k1"), _EFFECT, _DROPPED, replace(_REPOST, key="k1"), _SECOND[1]]),
        Ledger([_JOB, _POST, _EFFECT, _DROPPED, replace(_REPOST, body="{2}"), _SECOND[1]]),
    ],
    idle=[
        Ledger([*_STORY[:6], _ENDED]),
        Ledger([_JOB, replace(_POST, method="GET"), _EFFECT, _DROPPED, replace(_REPOST, method="GET")]),
        Ledger([_JOB, _POST, _EFFECT, replace(_DROPPED, failed=False), *_SECOND]),
    ],
)
