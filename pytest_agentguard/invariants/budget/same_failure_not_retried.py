"""A turn that the same request would end the same way again is not asked for again."""

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
    Witness,
)

_FINAL = ("length", "filter", "refusal")


def check(ledger: Ledger) -> Iterator[Finding]:
    """At once after an output limit or a refusal; after broken calls, once the same ones have come again."""
    broken = _broken(ledger)
    last: tuple[reading.Attempt, tuple[str, ...]] | None = None
    for attempt, later in reading.followed(ledger):
        reply, end = attempt.answer, attempt.end
        if not isinstance(reply, ReplyStarted) or not isinstance(end, StreamEnded) or not end.complete:
            continue
        calls = broken.get(reply.stream, ())
        came_again = bool(calls) and last is not None and _is_same(last, attempt, calls)
        last = attempt, calls
        if reply.finish not in _FINAL and not came_again:
            continue
        yield exercised(*attempt.evidence)
        if later is not None and reading.is_same_request(attempt, later):
            why = f"finish={reply.finish}" if reply.finish in _FINAL else "the same broken call=twice"
            yield violated(
                f"request={later.request} repeats request={attempt.request} after {why}",
                *attempt.evidence, later.asked,
            )  # fmt: skip


def _is_same(
    last: tuple[reading.Attempt, tuple[str, ...]], attempt: reading.Attempt, calls: tuple[str, ...]
) -> bool:
    return last[1] == calls and reading.is_same_request(last[0], attempt)


def _broken(ledger: Ledger) -> dict[str, tuple[str, ...]]:
    """The broken calls of each reply, as they are but for their nonce."""
    found: dict[str, tuple[str, ...]] = {}
    for offer in ledger.of(CallOffered, problem="broken"):
        bare = offer.arguments.replace(offer.nonce, "") if offer.nonce else offer.arguments
        found[offer.stream] = (*found.get(offer.stream, ()), f"{offer.tool} {bare}")
    return found


_JOB = RunStarted(witness=Witness.RUNNER)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, body='{"max_tokens": 1}')
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="length")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True)
_SHORT = [_JOB, _ASKED, _REPLY, _END]
_AGAIN = replace(_ASKED, request="r2", turn=2)
_LONGER = replace(_AGAIN, body='{"max_tokens": 2}')
_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="record", arguments='{"x": "n1',
    nonce="n1", problem="broken",
)  # fmt: skip
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_BROKEN = [_ASKED, replace(_REPLY, finish="tool_calls"), _CALL, _MARKER, _END]
_TWICE = [
    _JOB, *_BROKEN, _AGAIN, replace(_REPLY, finish="tool_calls", stream="s2", request="r2"),
    replace(_CALL, stream="s2", call="s2.c1", arguments='{"x": "n2', nonce="n2"),
    replace(_MARKER, stream="s2"), replace(_END, stream="s2"),
]  # fmt: skip
_THIRD = replace(_ASKED, request="r3", turn=3)
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="output limit")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="The same request ends at the same limit or the same refusal; each repetition is paid for.",
    source="wire facts §6, §7 trap 11",
    remedy="Change the request (more output, a shorter task, what was wrong with the call), or give up.",
    occasion="a whole turn that ended at the output limit, was refused, or had the same broken call again",
    holds=[Ledger([*_SHORT, _ENDED]), Ledger([*_SHORT, _LONGER, _ENDED]), Ledger([*_TWICE, _ENDED])],
    breaks=[
        Ledger([*_SHORT, _AGAIN, _ENDED]),
        Ledger([*_SHORT, replace(_AGAIN, body='{ "max_tokens":1}'), _ENDED]),
        Ledger([*_TWICE, _THIRD, _ENDED]),
    ],
    silent=[
        Ledger([_JOB, *_BROKEN, _AGAIN, _ENDED]),
        Ledger([*_SHORT, _ENDED, _JOB, _AGAIN, _ENDED]),
        Ledger([*_TWICE, replace(_THIRD, body="{}"), _ENDED]),
    ],
    idle=[
        Ledger([_JOB, _ASKED, replace(_REPLY, finish="stop"), _END, _AGAIN, _ENDED]),
        Ledger([_JOB, _ASKED, _REPLY, replace(_END, complete=False), _AGAIN, _ENDED]),
    ],
)
