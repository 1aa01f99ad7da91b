"""Of an oversized or endless response no more is taken than the declared bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    RunStarted,
    Witness,
)

_NOTICE = 256  # bytes in which a result may say that it was cut
_TAKEN = 48 * 1024 * 1024  # more than the buffers of a connection hold: somebody has read it


def check(ledger: Ledger) -> Iterator[Finding]:
    """The result is bounded by what is declared; what was read, by what has really left the server."""
    for answer in ledger.of(HttpAnswered):
        bound = reading.limit_of(ledger, answer, "output_bytes")
        size = max(answer.sent, answer.planned)
        if bound is None or size <= bound:
            continue
        found = _call_of(ledger, answer)
        yield exercised(answer)
        if found is not None and found.result_bytes > bound + _NOTICE:
            facts = f"result_bytes={found.result_bytes} output_bytes={bound:g}"
            yield violated(f"{facts}, sent={answer.sent} planned={answer.planned}", answer, found)
        elif answer.sent >= bound + _TAKEN:
            yield violated(f"read on behind the bound, sent={answer.sent} output_bytes={bound:g}", answer)


def _call_of(ledger: Ledger, answer: HttpAnswered) -> FetchEnded | None:
    asked = ledger.first(HttpReceived, request=answer.request)
    found = reading.fetch_of(ledger, asked) if asked is not None else None
    return found[1] if found is not None else None


_JOB = RunStarted(witness=Witness.RUNNER, limits={"output_bytes": 65536})
_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="big")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:80/big")
_BIG = HttpAnswered(
    witness=Witness.COUNTING_SERVER, request="h1", status=200, sent=1_000_000, planned=1_000_000
)
_CUT = FetchEnded(witness=Witness.RUNNER, call="f1", how="returned", result_bytes=65536)
_WHOLE = replace(_CUT, result_bytes=1_000_000)
_ENDLESS = replace(_BIG, sent=2**26, planned=2**26, end="client-left")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why=(
        "Whoever answers decides how much is read: a body without a bound fills the memory, or the model's "
        "window and the bill with it."
    ),
    source="requirement A16",
    remedy="Read the body in pieces, stop at the bound, close the connection; trust no Content-Length.",
    occasion="a response longer than the declared bound on output",
    holds=[
        Ledger([_JOB, _ASKED, _ARRIVED, _BIG, _CUT]),
        Ledger([_JOB, _ASKED, _ARRIVED, replace(_BIG, sent=70_000, end="client-left"), _CUT]),
        Ledger([_JOB, _ASKED, _ARRIVED, _BIG, replace(_CUT, how="raised", result_bytes=0)]),
    ],
    breaks=[
        Ledger([_JOB, _ASKED, _ARRIVED, _BIG, _WHOLE]),
        Ledger([_JOB, _ASKED, _ARRIVED, _ENDLESS, _CUT]),
    ],
    silent=[
        Ledger([_JOB, _ASKED, _ARRIVED, _BIG, replace(_CUT, result_bytes=65600)]),
        Ledger([_JOB, _ASKED, _ARRIVED, replace(_ENDLESS, sent=2**23), _CUT]),
        Ledger(
            [_JOB, _ASKED, _ARRIVED, replace(_BIG, sent=900, planned=900), replace(_CUT, result_bytes=900)]
        ),
    ],
    idle=[
        Ledger(),
        Ledger([replace(_JOB, limits={}), _ASKED, _ARRIVED, _BIG, _WHOLE]),
        Ledger([_JOB, _ASKED, _ARRIVED, _WHOLE]),
    ],
)
