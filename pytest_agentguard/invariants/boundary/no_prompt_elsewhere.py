"""A redirect to another origin takes no prompt there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import HttpReceived, RedirectOffered, RequestReceived, Witness

_SAID = ("prompt", "body")  # canaries in what was said, and not in what opens a door


def check(ledger: Ledger) -> Iterator[Finding]:
    """A 307 or 308 asks a client to send its whole body again; the other origin sees whether it did."""
    for offer in ledger.of(RedirectOffered, elsewhere=True):
        yield exercised(offer)
        for request in reading.arrived_elsewhere(ledger, offer):
            found = [canary for canary in request.canaries if canary.startswith(_SAID)]
            found += ["the same body"] if _is_repeated(ledger, offer, request) else []
            if found:
                yield violated(
                    f"{', '.join(found)} arrived at url={request.url}, status={offer.status} "
                    f"body_bytes={request.body_bytes}",
                    offer, request,
                )  # fmt: skip


def _is_repeated(ledger: Ledger, offer: RedirectOffered, request: HttpReceived) -> bool:
    """Whether the body of the redirected request came along, whatever is in it."""
    asked = ledger.first(RequestReceived, request=offer.request) or ledger.first(
        HttpReceived, request=offer.request
    )
    return asked is not None and 0 < asked.body_bytes == request.body_bytes


_OFFER = RedirectOffered(
    witness=Witness.ENDPOINT, request="r1", status=307, location="http://127.0.0.1:81/taken", elsewhere=True
)
_BARE = HttpReceived(
    witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:81/taken", host="127.0.0.1:81"
)
_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", body_bytes=900)
_TOLD = replace(_BARE, canaries=("prompt in body",), body_bytes=900)

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="The prompt holds what the user said in confidence, to the provider that was chosen and to no other.",
    source="wire facts §4.2 (307 and 308 repeat the POST); requirement D05",
    remedy="Do not follow redirects to another origin.",
    occasion="a redirect to another scheme, host or port was offered",
    holds=[Ledger([_OFFER]), Ledger([_ASKED, _OFFER, _BARE])],
    breaks=[
        Ledger([_OFFER, _TOLD]),
        Ledger([_OFFER, replace(_TOLD, canaries=("prompt in url",))]),
        Ledger([_ASKED, _OFFER, replace(_BARE, body_bytes=900)]),
    ],
    silent=[
        Ledger([_OFFER, replace(_BARE, credentials=("x-api-key",), canaries=("key in header x-api-key",))]),
        Ledger([_TOLD, _OFFER]),
        Ledger([_OFFER, replace(_TOLD, url="http://127.0.0.1:80/start", host="127.0.0.1:80")]),
    ],
    idle=[Ledger(), Ledger([_TOLD]), Ledger([replace(_OFFER, elsewhere=False), _TOLD])],
)
