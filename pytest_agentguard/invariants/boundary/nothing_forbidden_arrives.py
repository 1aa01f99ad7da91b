"""An input that a tool's policy refuses leads to no request and no connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    ConnectBlocked,
    ConnectionAccepted,
    Event,
    FetchEnded,
    FetchStarted,
    HttpReceived,
    RedirectOffered,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """What a redirect leads to is for ``redirect-not-followed``."""
    for start in ledger.of(FetchStarted, allowed=False):
        yield exercised(start)
        for request in _made_for(ledger, start):
            yield violated(f"request arrived for input={_shown(start)} url={request.url}", start, request)
        for opened in _opened_for(ledger, start):
            yield violated(f"connection for input={_shown(start)} address={opened.address}", start, opened)
        for blocked in ledger.after(start, ConnectBlocked):
            if _is_under_way(ledger, start, blocked):
                yield violated(f"{_told(blocked)} for input={_shown(start)}", start, blocked)
    led_to = {reading.origin(offer.location)[1] for offer in ledger.of(RedirectOffered)}
    followed = {r.seq for offer in ledger.of(RedirectOffered) for r in reading.arrived_by(ledger, offer)}
    for request in ledger.of(HttpReceived, allowed=False):
        if request.seq not in followed:
            yield violated(f"request arrived at url={request.url} allowed=False", request)
    for connection in ledger.of(ConnectionAccepted, allowed=False):
        if connection.address.rpartition("/")[2] not in led_to:
            yield violated(
                f"connection accepted at address={connection.address} allowed=False "
                f"first_bytes={connection.first_bytes or 'none'}",
                connection,
            )


def _made_for(ledger: Ledger, start: FetchStarted) -> Iterator[HttpReceived]:
    """Requests that arrived while only this input was worked on, and that no earlier input still owed."""
    earlier = sum(1 for other in ledger.before(start, FetchStarted) if other.allowed)
    if len(ledger.before(start, HttpReceived)) < earlier:
        return
    for request in ledger.after(start, HttpReceived, allowed=True):
        found = reading.fetch_of(ledger, request)
        if found is not None and found[0].seq == start.seq:
            yield request


def _opened_for(ledger: Ledger, start: FetchStarted) -> Iterator[ConnectionAccepted]:
    """Connections before anything was asked for that may have one."""
    if not any(other.allowed for other in ledger.before(start, FetchStarted)):
        for opened in ledger.after(start, ConnectionAccepted, allowed=True):
            if _is_under_way(ledger, start, opened):
                yield opened


def _is_under_way(ledger: Ledger, start: FetchStarted, event: Event) -> bool:
    found = reading.fetch_of(ledger, event)
    return found is not None and found[0].seq == start.seq


def _told(blocked: ConnectBlocked) -> str:
    if blocked.what == "lookup":
        return f"name looked up, address={blocked.address}, which had to be blocked,"
    return f"connect to address={blocked.address} had to be blocked"


def _shown(start: FetchStarted) -> str:
    return reading.brief(start.input)


_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="http://127.0.0.1:81/other", allowed=False)
_REFUSED = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="not on the list")
_OTHER = HttpReceived(
    witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:81/other", allowed=False
)
_LISTED = replace(_OTHER, url="http://127.0.0.1:80/start", allowed=True)
_OPENED = ConnectionAccepted(
    witness=Witness.COUNTING_SERVER, address="127.0.0.1:82", allowed=False, first_bytes="160301"
)
_BLOCKED = ConnectBlocked(witness=Witness.RUNNER, address="192.0.2.1:80")
_BEFORE = [
    replace(_ASKED, call="f0", input="start", allowed=True),
    replace(_LISTED, request="h0"),
    replace(_REFUSED, call="f0", how="returned", error=""),
]
_OFFER = RedirectOffered(
    witness=Witness.COUNTING_SERVER, request="h0", status=302, location="http://127.0.0.1:81/other"
)

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A tool that asks first and refuses afterwards has already sent the request: inside a network that "
        "reads metadata, deletes things, or tells somebody that the machine is there."
    ),
    source="requirement B02",
    remedy=(
        "Look the input up in a list of ids and build the URL from the list; never parse, repair or decode "
        "what the model wrote."
    ),
    occasion="a fetch tool was given an input that its policy refuses",
    holds=[Ledger([_ASKED, _REFUSED]), Ledger([*_BEFORE, _ASKED, _REFUSED])],
    breaks=[
        Ledger([_ASKED, _OTHER, _REFUSED]),
        Ledger([_ASKED, _REFUSED, _OTHER]),
        Ledger([_ASKED, _LISTED, _REFUSED]),
        Ledger([_ASKED, _OPENED, _REFUSED]),
        Ledger([_ASKED, _BLOCKED, _REFUSED]),
        Ledger([_ASKED, replace(_BLOCKED, address="example.com:80", what="lookup"), _REFUSED]),
        Ledger([_ASKED, replace(_OPENED, allowed=True), _REFUSED]),
    ],
    silent=[
        Ledger([_ASKED, _REFUSED, replace(_ASKED, call="f2", allowed=True), _LISTED]),
        Ledger([_BEFORE[0], _BEFORE[2], _ASKED, _BEFORE[1], _REFUSED]),
        Ledger([*_BEFORE[:2], _OFFER, _OTHER, _BEFORE[2]]),
        Ledger([_ASKED, _REFUSED, _BLOCKED]),
        Ledger([_BEFORE[0], _BEFORE[2], _ASKED, replace(_OPENED, allowed=True), _REFUSED]),
    ],
    idle=[Ledger(), Ledger(_BEFORE), Ledger([_BLOCKED])],
)
