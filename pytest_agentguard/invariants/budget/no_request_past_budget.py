"""No more requests arrive for one model turn than are declared, all layers that try again together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Counted where they are received; a turn is over once an answer to it was delivered whole."""
    for budget in reading.budgets(ledger):
        first = budget.attempts[0]
        yield exercised(first.asked)
        beyond = next((a for count, a in enumerate(budget.attempts, 1) if count > budget.allowed), None)
        if beyond is not None:
            yield violated(
                f"received={len(budget.attempts)} allowed={budget.allowed:g} {budget.what}",
                first.asked, beyond.asked,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, limits={"attempts": 2})
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="overloaded")
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", turn=1, body="{1}")
_AGAIN = replace(_ASKED, request="r2")
_OTHER = replace(_ASKED, request="r3", body='{"model": "fallback"}')
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", finish="stop")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True)
_HTTP = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:1/orders")
_FAILED = HttpAnswered(witness=Witness.COUNTING_SERVER, request="h1", status=503, failed=True)
_FETCHED = [_HTTP, _FAILED, replace(_HTTP, request="h2"), replace(_FAILED, request="h2")]
_SIDE_BY_SIDE = [
    _ASKED, _AGAIN, _OTHER, replace(_OTHER, request="r4"), _REPLY, replace(_REPLY, stream="s2", request="r2"),
    replace(_REPLY, stream="s3", request="r3", status=503), replace(_END, stream="s3", complete=False),
    _END, replace(_END, stream="s2"),
]  # fmt: skip

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A library that tries again inside an agent that tries again multiplies: three times three is nine "
        "requests, and an overloaded provider gets nine times the load."
    ),
    source="wire facts §4.1, §7 trap 5; requirements B05, B14, D04",
    remedy="Let one layer try again, and give every other one a retry count of zero.",
    occasion="a request under a declared number of attempts",
    holds=[Ledger([_JOB, _ASKED, _AGAIN, _ENDED]), Ledger([_JOB, *_FETCHED])],
    breaks=[
        Ledger([_JOB, _ASKED, _AGAIN, _OTHER, _ENDED]),
        Ledger([_JOB, *_FETCHED, replace(_HTTP, request="h3", url="http://127.0.0.1:1/other")]),
        Ledger([_JOB, _ASKED, _AGAIN, replace(_ENDED, how="signalled"), _JOB, _OTHER, _ENDED]),
    ],
    silent=[
        Ledger([_JOB, _ASKED, _AGAIN, replace(_OTHER, turn=2), _ENDED]),
        Ledger([_JOB, _ASKED, _AGAIN, replace(_OTHER, kind="models"), _ENDED]),
        Ledger([_JOB, _ASKED, _AGAIN, _ENDED, _JOB, _OTHER, _ENDED]),
        Ledger([_JOB, *_SIDE_BY_SIDE, _ENDED]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={}), _ASKED, _AGAIN, _OTHER, _ENDED]),
        Ledger([_ASKED, _AGAIN, _OTHER]),
    ],
)
