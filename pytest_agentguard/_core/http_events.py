"""Facts of the counting server, and of the fetch tools that it serves."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_agentguard._core.event import Event

# -- counting server ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReceived(Event):
    """The counting server has read a whole request; recorded before anything is answered.

    ``url`` is where it arrived: ``http://HOST:PORT/path`` with the address of the listener. ``route`` is
    empty where no route has this path. ``allowed`` is False where the request is one that the tool under
    test must not make.
    """

    request: str
    url: str = ""
    route: str = ""
    origin: str = ""  # the name of the listener: first, other, host, tls, …
    allowed: bool = True
    method: str = "GET"
    host: str = ""  # the Host header
    credentials: tuple[str, ...] = ()  # names of the headers that carried one, never their values
    canaries: tuple[str, ...] = ()  # "NAME in header X", "NAME in url", "NAME in body"
    key: str = ""  # Idempotency-Key
    body: str = ""  # cut
    body_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswered(Event):
    """What became of a request. ``failed``: the client got no whole answer with a status below 400."""

    request: str
    status: int = 0  # 0: no answer was begun
    end: str = "clean"  # clean, dropped, cut, reset, client-left
    failed: bool = False
    sent: int = 0  # body bytes that left
    planned: int = 0
    retry_after: float | None = None  # s, where the answer had the header
    nonce: str = ""  # what ``{nonce}`` in its body stood for


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionAccepted(Event):
    """A connection was opened to a listener; ``allowed`` is False where nobody may connect.

    Recorded once more, with what came first and as not allowed, where what came is no HTTP.
    """

    origin: str = ""
    address: str = ""  # of the listener
    allowed: bool = True
    first_bytes: str = ""  # in hexadecimal, where what came was no HTTP


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectOffered(Event):
    """An answer with a Location is about to leave; ``location`` is the whole URL that it means."""

    request: str
    status: int
    location: str
    elsewhere: bool = False  # another scheme, host or port than the request's


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectDone(Event):
    """The effect that a request asked for has happened at the server, whatever its client did meanwhile."""

    request: str
    route: str = ""
    count: int = 0  # effects of this route by now


# -- fetch tools -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStarted(Event):
    """A fetch tool was called with an input; ``allowed`` says whether its policy lets it make a request."""

    call: str
    input: str = ""
    allowed: bool = True
    worker: str = ""  # of several that work under one budget


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEnded(Event):
    """A fetch call is over. ``how``: ``returned`` · ``raised`` · ``cancelled``."""

    call: str
    how: str
    result: str = ""  # what it returned, cut
    result_bytes: int = 0
    error: str = ""
    error_type: str = ""
    error_chain: tuple[str, ...] = ()
