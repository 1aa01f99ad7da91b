"""A redirect to another origin takes no credential there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import HttpReceived, RedirectOffered, Witness

_NO_SECRETS = ("prompt", "body")  # canaries that are looked for as well: they are for no-prompt-elsewhere


def check(ledger: Ledger) -> Iterator[Finding]:
    """The other origin is the witness: a header that carries one, or its value in URL, header or body."""
    for offer in ledger.of(RedirectOffered, elsewhere=True):
        yield exercised(offer)
        for request in reading.arrived_elsewhere(ledger, offer):
            found = [*request.credentials, *(c for c in request.canaries if not c.startswith(_NO_SECRETS))]
            if found:
                yield violated(
                    f"credentials={', '.join(found)} arrived at url={request.url}, status={offer.status}",
                    offer, request,
                )  # fmt: skip


_OFFER = RedirectOffered(
    witness=Witness.ENDPOINT, request="r1", status=307, location="http://127.0.0.1:81/taken", elsewhere=True
)
_BARE = HttpReceived(
    witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:81/taken", host="127.0.0.1:81"
)
_KEY = replace(_BARE, credentials=("x-api-key",))

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="A key that went to another origin is spent: its owner pays for whatever is done with it.",
    source="wire facts §4.2 (key after a cross-origin redirect); requirement D05",
    remedy=(
        "Do not follow redirects to another origin, or drop every header that carries a credential on the "
        "way; x-api-key is one as much as Authorization."
    ),
    occasion="a redirect to another scheme, host or port was offered",
    holds=[Ledger([_OFFER]), Ledger([_OFFER, _BARE])],
    breaks=[
        Ledger([_OFFER, _KEY]),
        Ledger([_OFFER, replace(_BARE, canaries=("key in url",))]),
        Ledger([_OFFER, replace(_KEY, url="http://127.0.0.1:81/further")]),
    ],
    silent=[
        Ledger([_OFFER, replace(_BARE, canaries=("prompt in body",))]),
        Ledger([_KEY, _OFFER]),
        Ledger([_OFFER, replace(_KEY, url="http://127.0.0.1:80/start", host="127.0.0.1:80")]),
    ],
    idle=[Ledger(), Ledger([_KEY]), Ledger([replace(_OFFER, elsewhere=False), _KEY])],
)
