"""Questions about stopping: waits that end, stops and what follows them, redirects and where they lead.

A model turn is asked for at the endpoint, everything else at the counting server; a held response may be at
either. Order decides. The clock only tells that something came too early to prove anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_agentguard._core.events import (
    ConnectionAccepted,
    Event,
    FetchEnded,
    FetchStarted,
    HttpReceived,
    RedirectOffered,
    RequestReceived,
    RunEnded,
    RunStarted,
    StopRequested,
    StreamHeld,
    StreamReleased,
    ToolStarted,
)
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.reading import (
    attempt_end,
    limit_of,
    outcome_of,
    release_of,
    reply_of,
    requests_after,
    run_of,
)

_TIMES = ("idle_timeout", "request_timeout", "deadline")
_CANCELLED = re.compile(r"cancel|abort|interrupt|stopped|systemexit", re.IGNORECASE)
_TIMED_OUT = re.compile(r"time_?out|timed_?out|deadline", re.IGNORECASE)
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(?:[^/?#]*@)?([^/?#]*)([^?#]*)", re.IGNORECASE)
_WENT_AWAY = ("exited", "signalled", "killed")  # ends of a process, which say nothing by an exception


# -- stops ------------------------------------------------------------------------------------------


def stops(ledger: Ledger) -> tuple[StopRequested, ...]:
    """The first stop of every run that was told to stop; a second cancel is none of its own."""
    return ledger.remembered(_stops)


def _stops(ledger: Ledger) -> tuple[StopRequested, ...]:
    found: dict[int, StopRequested] = {}
    for stop in ledger.of(StopRequested):
        run = run_of(ledger, stop)
        found.setdefault(run.seq if run is not None else 0, stop)
    return tuple(found.values())


def cancels(ledger: Ledger) -> Iterator[StopRequested]:
    """Every first stop that is a cancel."""
    return (stop for stop in stops(ledger) if stop.by == "cancel")


def end_of_run(ledger: Ledger, event: Event) -> RunEnded | None:
    """How the run of ``event`` ended, also where that was recorded a moment before ``event``."""
    run, later = run_of(ledger, event), outcome_of(ledger, event)
    if later is not None or run is None:
        return later
    return ledger.first_after(run, RunEnded)


def calls_after(ledger: Ledger, event: Event) -> Iterator[RequestReceived | HttpReceived | ToolStarted]:
    """Every request and every tool that came after ``event`` and before another run began."""
    following = ledger.first_after(event, RunStarted)
    calls: list[RequestReceived | HttpReceived | ToolStarted] = [
        *ledger.after(event, RequestReceived, kind="turn"),
        *ledger.after(event, HttpReceived),
        *ledger.after(event, ToolStarted),
    ]
    for call in sorted(calls, key=lambda call: call.seq):
        if following is None or call.seq < following.seq:
            yield call


def is_cancellation(ended: RunEnded | FetchEnded) -> bool:
    """Whether an end says of itself that it was cancelled, in whatever way the framework has for that.

    That is a cancellation of asyncio, trio or of its own, KeyboardInterrupt or SystemExit, or a group that
    holds nothing that ``except Exception`` would catch.
    """
    if ended.how == "cancelled":
        return True
    if ended.how in ("failed", "limited"):  # a status, not an exception: its words are all there is
        return _CANCELLED.search(ended.error or "") is not None
    return ended.how == "raised" and _CANCELLED.search(_type_of(ended)) is not None


def is_timeout(ended: RunEnded | FetchEnded) -> bool:
    """Whether an end says of itself that a time limit was reached."""
    said = (ended.error or "") if ended.how in ("failed", "limited") else _type_of(ended)
    return ended.how in ("raised", "failed", "limited") and _TIMED_OUT.search(said) is not None


def _type_of(ended: RunEnded | FetchEnded) -> str:
    """The name of the exception; of a group that of its first member."""
    names = [name.rpartition(".")[2] for name in (ended.error_type or "", *ended.error_chain)]
    if names[0] == "BaseExceptionGroup":  # there is a cancellation in it, or it would be an ExceptionGroup
        return "CancelledError"
    return next((name for name in names if not name.endswith("ExceptionGroup")), "")


# -- fetch calls ------------------------------------------------------------------------------------


def fetches(ledger: Ledger) -> Mapping[str, tuple[FetchStarted, FetchEnded | None]]:
    """Every use of a fetch tool by its name, with its end."""
    return ledger.remembered(_fetches)


def _fetches(ledger: Ledger) -> dict[str, tuple[FetchStarted, FetchEnded | None]]:
    return {
        start.call: (start, ledger.first_after(start, FetchEnded, call=start.call))
        for start in ledger.of(FetchStarted)
    }


def open_fetches(ledger: Ledger, event: Event) -> list[tuple[FetchStarted, FetchEnded | None]]:
    """The uses of a fetch tool that were under way at ``event``."""
    return [
        (start, end)
        for start, end in fetches(ledger).values()
        if start.seq < event.seq and (end is None or event.seq < end.seq)
    ]


def fetch_of(ledger: Ledger, event: Event) -> tuple[FetchStarted, FetchEnded | None] | None:
    """The use of a fetch tool that a fact of the counting server belongs to; None where several may be."""
    found = open_fetches(ledger, event)
    return found[0] if len(found) == 1 else None


# -- waits ------------------------------------------------------------------------------------------


def request_of(ledger: Ledger, held: StreamHeld) -> RequestReceived | HttpReceived | None:
    """The request whose response is held."""
    reply = reply_of(ledger, held)
    if reply is not None:
        return ledger.first(RequestReceived, request=reply.request)
    return ledger.first(HttpReceived, request=held.stream)


def given_up(ledger: Ledger, held: StreamHeld) -> Event | None:
    """The first sign that the agent gave up a held response by itself, and not because it was cancelled."""
    signs = [attempt_end(ledger, held)]
    fetch = fetch_of(ledger, held)
    if fetch is not None:
        signs += [fetch[1]]
    sign = min((sign for sign in signs if sign is not None), key=lambda sign: sign.seq, default=None)
    cancel = ledger.first_after(held, StopRequested, by="cancel")
    return None if sign is None or (cancel is not None and cancel.seq < sign.seq) else sign


def settled(ledger: Ledger, held: StreamHeld, limit: float, since: Event) -> Event | None:
    """The fact that settles a wait under ``limit`` seconds, counted from ``since``, at either server.

    A ``StreamReleased``, if the attempt was still waiting when the held response was let go at its own,
    longer limit; else the sign that the agent had given up by itself; None, if nothing can be said.
    """
    released, ended = release_of(ledger, held), given_up(ledger, held)
    if ended is not None and (released is None or ended.seq < released.seq):
        return ended
    stop = ledger.first_after(held, StopRequested, by="cancel")
    if released is None or (stop is not None and stop.seq < released.seq):
        return None
    return released if is_at_limit(released, limit, since) else None


def is_at_limit(released: StreamReleased, limit: float, since: Event) -> bool:
    """Whether a response was let go at its own limit, and not too early to prove anything."""
    return released.by == "limit" and not 0 < released.t - since.t < limit


def waits_under(ledger: Ledger, held: StreamHeld) -> dict[str, float]:
    """The declared limits that have to end a wait, by name; a drip keeps restarting an idle timeout."""
    names = ("request_timeout", "deadline") if held.why == "drip" else _TIMES
    found = {name: limit_of(ledger, held, name) for name in names}
    return {name: limit for name, limit in found.items() if limit is not None and limit > 0}


class Timeout(NamedTuple):
    """A held response that was given up at a time limit, and the end of a call or run that came of it."""

    held: StreamHeld
    end: RunEnded | FetchEnded


def timeouts(ledger: Ledger) -> tuple[Timeout, ...]:
    """Every wait that ended by a time limit and was not tried again: how that came out."""
    return ledger.remembered(_timeouts)


def _timeouts(ledger: Ledger) -> tuple[Timeout, ...]:
    found = []
    for held in ledger.of(StreamHeld):
        end = _end_by_time(ledger, held) if waits_under(ledger, held) and held.why != "keep-open" else None
        if end is not None:
            found.append(Timeout(held, end))
    return tuple(found)


def _end_by_time(ledger: Ledger, held: StreamHeld) -> RunEnded | FetchEnded | None:
    """The end, also where it came before the request was read: the client's clock had begun earlier."""
    fetch, outcome = fetch_of(ledger, held), end_of_run(ledger, held)
    end: RunEnded | FetchEnded | None = fetch[1] if fetch is not None else outcome
    if end is None or end.how in ("returned", *_WENT_AWAY):
        return None
    if ledger.first_after(held, StopRequested, by="cancel") is not None:
        return None  # also where it is on record a moment after the end: a thread is told first
    again = next(requests_after(ledger, held), None) or ledger.first_after(held, HttpReceived)
    released = release_of(ledger, held)
    others: list[Event] = [] if again is None else [again]
    if released is not None and released.by != "client-closed":
        others.append(released)
    return end if all(end.seq < other.seq for other in others) else None


# -- redirects --------------------------------------------------------------------------------------


def origin(url: str) -> tuple[str, str]:
    """Scheme, and host with port, of a URL; both empty where it is none."""
    found = _URL.match(url)
    return ("", "") if found is None else (found[1].lower(), found[2].lower())


def arrived_by(ledger: Ledger, offer: RedirectOffered) -> Iterator[HttpReceived]:
    """Every request at the place that a redirect means, as far as it can have come from following it.

    What a fetch tool is asked for afterwards is another matter; so is the same request made again.
    """
    again = ledger.first_after(offer, FetchStarted, allowed=True)
    wanted, path = origin(offer.location), _path(offer.location)
    asked = ledger.first(HttpReceived, request=offer.request)
    if asked is not None and _place(asked) == (wanted, path):
        return
    for request in ledger.after(offer, HttpReceived):
        if _place(request) == (wanted, path) and (again is None or request.seq < again.seq):
            yield request


def connected_by(ledger: Ledger, offer: RedirectOffered) -> Iterator[ConnectionAccepted]:
    """Every connection to a place where nobody may connect, and to which a redirect leads."""
    host = origin(offer.location)[1]
    for connection in ledger.after(offer, ConnectionAccepted, allowed=False):
        if host and connection.address.rpartition("/")[2].lower() == host:
            yield connection


def arrived_elsewhere(ledger: Ledger, offer: RedirectOffered) -> Iterator[HttpReceived]:
    """Every request at the other origin that a redirect means, after it was offered."""
    if not offer.elsewhere:
        return
    wanted = origin(offer.location)
    for request in ledger.after(offer, HttpReceived):
        if _place(request)[0] == wanted:
            yield request


def _place(request: HttpReceived) -> tuple[tuple[str, str], str]:
    """Origin, by the name that the client used for it, and path."""
    scheme, address = origin(request.url)
    return (scheme, request.host.lower() or address), _path(request.url)


def _path(url: str) -> str:
    found = _URL.match(url)
    return (found[3] or "/") if found is not None else ""
