"""An attempt that failed has used up its place in the budget, like one that succeeded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    ClientClosed,
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StopRequested,
    StreamEnded,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Broken by the first attempt that fits into the budget only if those that failed are not counted."""
    for budget in reading.budgets(ledger):
        failed: list[reading.Attempt] = []
        for count, attempt in enumerate(budget.attempts, 1):
            others = count - len(failed)  # this one included, whatever becomes of it
            if failed and count > budget.allowed >= others:
                yield violated(
                    f"attempt={count} received after failed={len(failed)}, {budget.what}",
                    *failed[0].evidence, attempt.asked,
                )  # fmt: skip
                break
            if attempt.failed:
                failed.append(attempt)
                yield exercised(*attempt.evidence)


_JOB = RunStarted(witness=Witness.RUNNER, limits={"attempts": 2})
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="overloaded")
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, body="{1}")
_REFUSED = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", status=503, fault="status-503")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_FIRST = [_ASKED, _REFUSED, _END]
_SECOND = [
    replace(_ASKED, request="r2", body="{2}"),
    replace(_REFUSED, request="r2", stream="s2", status=200, fault="reset"),
    replace(_END, stream="s2", end="reset", planned_end="reset"),
]
_THIRD = replace(_ASKED, request="r3", body="{3}")
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/orders")
_DROPPED = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", end="dropped", failed=True)
_ONE = replace(_JOB, limits={"attempts": 1})
_LEFT = ClientClosed(witness=Witness.COUNTING_SERVER, stream="h1")
_STOP = StopRequested(witness=Witness.RUNNER, at="request")
_MORE = replace(_HTTP, request="h2")
_WHOLE = [_ASKED, replace(_REFUSED, status=200, fault=""), replace(_END, complete=True)]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "The server may have done the work of an attempt that failed, and bills it. A budget that counts "
        "successes only has no bound on the day when nothing succeeds."
    ),
    source="requirements B05, B06, B07, D04",
    remedy="Take an attempt from the budget before it is sent, and never give it back.",
    occasion="an attempt that failed, under a declared number of attempts",
    holds=[
        Ledger([_JOB, *_FIRST, *_SECOND, _ENDED]),
        Ledger([_ONE, _HTTP, _DROPPED]),
        Ledger([_ONE, _HTTP, _STOP, _LEFT, _ENDED]),
    ],
    breaks=[
        Ledger([_JOB, *_FIRST, *_SECOND, _THIRD, _ENDED]),
        Ledger([_ONE, _HTTP, _DROPPED, _MORE]),
        Ledger([_ONE, _HTTP, _STOP, _LEFT, _MORE, _ENDED]),
        Ledger([_JOB, *_FIRST, *_SECOND, replace(_ENDED, how="killed"), _JOB, _THIRD, _ENDED]),
    ],
    silent=[
        Ledger([_JOB, *_FIRST, *_SECOND, replace(_THIRD, turn=2), _ENDED]),
        Ledger([_JOB, *_FIRST, *_SECOND, _ENDED, _JOB, _THIRD, _ENDED]),
        Ledger([_JOB, *_FIRST, *_SECOND, replace(_THIRD, kind="models"), _ENDED]),
        Ledger([_ONE, *_WHOLE, _HTTP, _DROPPED, _MORE]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={}), *_FIRST, *_SECOND, _THIRD, _ENDED]),
        Ledger([_JOB, *_WHOLE, _ENDED]),
    ],
)
