"""What the origins of one counting server have in common: routes, requests in order, names, canaries."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._core.events import CeilingReached, Event, HttpReceived, Witness, WitnessFailed
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Recorder
from pytest_agentguard._witnesses import canaries
from pytest_agentguard._witnesses.http_answers import ANY
from pytest_agentguard._witnesses.http_request import HttpRequest
from pytest_agentguard._witnesses.served import Served


class Tally:
    """The counts of one server, over all its origins, and the one place that writes its facts."""

    def __init__(self, recorder: Recorder, *, lane: str, seed: str, ceiling: int) -> None:
        self.lane = lane
        self.requests: list[HttpReceived] = []
        self.problems: list[str] = []
        self.canaries: dict[str, str] = {}
        self.is_closed = False
        self._recorder = recorder
        self._ids = CountedIds(f"{seed}/counting-server")
        self._ceiling = ceiling
        self._routes: dict[tuple[str, str], Served] = {}
        self._number = 0

    # -- routes ---------------------------------------------------------------------------------------

    def add(self, served: Served) -> None:
        """One more route. Raises ``UsageError`` where there is one for this path, or nobody serves it."""
        if self.is_closed:
            raise UsageError(f"route {served.route.path} of a counting server that has been closed")
        key = served.origin, served.route.path
        if key in self._routes:
            raise UsageError(f"there is a route {key[1]} already; then= says what its later requests get")
        self._routes[key] = served

    def find(self, origin: str, path: str) -> Served | None:
        """The route for a path of an origin: as it is written, else as it is meant, else one with a star."""
        routes = dict(self._routes)
        for place in (origin, ""):
            for name in (path, unquote(path)):
                if (place, name) in routes:
                    return routes[place, name]
        stars = [
            (bool(place), len(name), served)
            for (place, name), served in routes.items()
            if place in (origin, "") and name.endswith(ANY) and unquote(path).startswith(name[:-1])
        ]
        return max(stars, key=lambda star: star[:2])[2] if stars else None

    def served(self, origin: str) -> tuple[Served, ...]:
        """The routes of an origin, those of all origins included."""
        return tuple(served for (place, _), served in dict(self._routes).items() if place in (origin, ""))

    # -- requests -------------------------------------------------------------------------------------

    def name(self) -> str | None:
        """The name of the next request; None beyond the ceiling."""
        self._number += 1
        if self._number == self._ceiling + 1:
            self.problems.append(f"more requests than limit={self._ceiling}")
            self.say(CeilingReached, limit=self._ceiling)
        if self._number > self._ceiling:
            return None
        return f"{self.lane}/h{self._number}" if self.lane else f"h{self._number}"

    def nonce(self) -> str:
        """A value that is new in every answer."""
        return self._ids.nonce()

    def receive(self, **fields: Any) -> HttpReceived:
        """Record a request."""
        self.say(HttpReceived, **fields)
        event = HttpReceived(witness=Witness.COUNTING_SERVER, lane=self.lane, **fields)
        self.requests.append(event)
        return event

    def say(self, kind: type[Event], **fields: Any) -> None:
        """Record a fact."""
        self._recorder.record(kind, witness=Witness.COUNTING_SERVER, lane=self.lane, **fields)

    # -- what is no request ---------------------------------------------------------------------------

    def ready(self, events: int) -> None:
        """There is no socket of its own."""

    def failed(self, error: BaseException) -> None:
        """The server itself broke."""
        text = f"{type(error).__name__}: {error}"
        self.problems.append(f"counting server failed: {text}")
        self.say(WitnessFailed, error=text)

    # -- canaries -------------------------------------------------------------------------------------

    def found(self, request: HttpRequest) -> tuple[str, ...]:
        """Where canaries came, each place once."""
        return canaries.found(self.canaries, request)

    def masked(self, text: str) -> str:
        """The text with the names of canaries for their values."""
        return canaries.masked(self.canaries, text)


def cut(body: bytes) -> str:
    """What is kept of a body."""
    text = body[: limits.COUNTED_BODY_BYTES].decode("utf-8", "backslashreplace")
    return text if len(body) <= limits.COUNTED_BODY_BYTES else f"{text}… ({len(body)} bytes)"
