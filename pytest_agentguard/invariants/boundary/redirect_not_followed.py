"""A redirect is not followed to where the tool, or the model client, was not told to go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    ConnectionAccepted,
    FetchStarted,
    HttpReceived,
    RedirectOffered,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A tool with a list of allowed places must not leave it; of a model client it is a practice."""
    begun_at_model = ledger.first(RedirectOffered, witness=Witness.ENDPOINT)
    for offer in ledger.of(RedirectOffered):
        yield exercised(offer)
        is_model = begun_at_model is not None and begun_at_model.seq <= offer.seq
        level = Level.MAY if is_model else Level.MUST
        facts = f"status={offer.status} location={offer.location}"
        for request in reading.arrived_by(ledger, offer):
            yield violated(
                f"redirect followed, {facts}: {request.method} arrived", offer, request, level=level
            )
        for connection in reading.connected_by(ledger, offer):
            yield violated(f"redirect followed, {facts}: connected", offer, connection, level=level)


_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="start")
_FIRST = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:80/start")
_OFFER = RedirectOffered(
    witness=Witness.COUNTING_SERVER, request="h1", status=302, location="http://127.0.0.1:80/taken"
)
_TAKEN = HttpReceived(
    witness=Witness.COUNTING_SERVER,
    request="h2",
    url="http://127.0.0.1:80/taken",
    host="127.0.0.1:80",
    allowed=False,
)
_MODEL = replace(_OFFER, witness=Witness.ENDPOINT, elsewhere=True, status=307)
_TLS = replace(_OFFER, location="https://127.0.0.1:81/taken", elsewhere=True)
_OPENED = ConnectionAccepted(
    witness=Witness.COUNTING_SERVER, address="127.0.0.1:81", allowed=False, first_bytes="160301"
)
_NAMED = replace(_OFFER, location="http://localhost:80/start", elsewhere=True)
_BY_NAME = replace(_FIRST, request="h2", host="localhost:80")
_LOOP = replace(_OFFER, location="http://127.0.0.1:80/start")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "Whoever answers an allowed request chooses where a followed redirect goes: to a forbidden path, to "
        "another port of this machine, to another host."
    ),
    source="wire facts §4.2 (redirects); requirement B04",
    remedy=(
        "Turn redirects off in the HTTP client and treat a 3xx as an answer; where one must be followed, put "
        "its target through the same list as an input."
    ),
    occasion="an answer with a Location was offered",
    holds=[Ledger([_ASKED, _FIRST, _OFFER]), Ledger([_MODEL])],
    breaks=[
        Ledger([_ASKED, _FIRST, _OFFER, _TAKEN]),
        Ledger([_MODEL, _TAKEN]),
        Ledger([_ASKED, _FIRST, _TLS, _OPENED]),
        Ledger([_ASKED, _FIRST, _NAMED, _BY_NAME]),
    ],
    silent=[
        Ledger([_ASKED, _FIRST, _TAKEN, _OFFER]),
        Ledger([_ASKED, _FIRST, _OFFER, replace(_ASKED, call="f2", input="taken"), _TAKEN]),
        Ledger([_ASKED, _FIRST, _LOOP, replace(_FIRST, request="h2")]),
        Ledger([_ASKED, _FIRST, _NAMED, replace(_BY_NAME, host="127.0.0.1:80")]),
        Ledger([_ASKED, _FIRST, _OFFER, replace(_TAKEN, url="http://127.0.0.1:80/other")]),
    ],
    idle=[Ledger(), Ledger([_ASKED, _FIRST]), Ledger([_ASKED, _FIRST, _TAKEN])],
)
