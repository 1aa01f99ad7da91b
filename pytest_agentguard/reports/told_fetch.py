"""What a ledger tells of a fetch tool in words: asked, answered, done, claimed. Words only, no judgement."""

from __future__ import annotations

import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_agentguard._core.events import (
    EffectDone,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    RedirectOffered,
    StopRequested,
    StreamHeld,
    StreamReleased,
)
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard.reports.text import cut, quoted, safe
from pytest_agentguard.reports.told import RELEASES, SHOWN, Telling

_LONG = 60  # characters of an input, a path or an error
_ENDS = {
    "dropped": "connection closed without an answer",
    "cut": "body cut",
    "reset": "connection reset",
    "client-left": "the client left",
}
_STOPS = {"cancel": "cancelled", "deadline": "its deadline passed"}


@dataclass(frozen=True, slots=True)
class FetchTelling:
    """How the run of a fetch tool is told."""

    ledger: Ledger
    unicode: bool = True

    def rows(self) -> Iterator[tuple[str, str]]:
        """The rows of a story, by name."""
        yield "asked", self.asked()
        yield "answered", self.answered()
        yield "done", self.done()
        yield "claimed", self.claimed()
        yield "stderr", Telling(self.ledger, "", self.unicode).last_words()

    def asked(self) -> str:
        """The inputs in order, those side by side as one, and when the run was stopped."""
        uses = self.ledger.of(FetchStarted)
        inputs = Counter((use.call.partition(".")[0], use.input, use.allowed) for use in uses)
        parts = _counted(self._use(name, allowed, count) for (_, name, allowed), count in inputs.items())
        stops = [_STOPS.get(stop.by, stop.by) for stop in self.ledger.of(StopRequested)]
        return "; ".join([*_first(parts), *stops])

    def _use(self, name: str, allowed: bool, count: int) -> str:
        text = cut(quoted(name, self.unicode), _LONG, self.unicode, len(name))
        return text + ("" if allowed else ", not on its list") + (f", {count} at once" if count > 1 else "")

    def answered(self) -> str:
        """What the server did with what arrived."""
        return "; ".join(_first(_counted(self._answers())))

    def _answers(self) -> Iterator[str]:
        redirects = {offer.request: offer for offer in self.ledger.of(RedirectOffered)}
        held = {held.stream: held for held in self.ledger.of(StreamHeld)}
        for answer in self.ledger.of(HttpAnswered):
            offer, hold = redirects.get(answer.request), held.get(answer.request)
            if offer is not None:
                yield f"{offer.status} to {self._shown(offer.location)}"
            elif hold is not None:
                yield f"held {self._until(hold)}"
            else:
                yield _ENDS.get(answer.end, "") or f"status {answer.status}, {answer.sent} bytes"

    def _until(self, held: StreamHeld) -> str:
        let_go = self.ledger.first(StreamReleased, stream=held.stream, hold=held.hold)
        return "and never released" if let_go is None else RELEASES.get(let_go.by, f"until {let_go.by}")

    def done(self) -> str:
        """What really arrived, and what came of it at the server."""
        received = self.ledger.of(HttpReceived)
        places = _counted(f"{one.method} {self._shown(one.url)}" for one in received)
        parts = [f"{len(received)} request{'s' * (len(received) != 1)} arrived"]
        parts += _first(places)
        effects = len(self.ledger.of(EffectDone))
        return "; ".join([*parts, *([f"effects={effects}"] * bool(effects))])

    def claimed(self) -> str:
        """How each use ended, as the tool said."""
        ends = self.ledger.of(FetchEnded)
        parts = _counted(map(self._end, ends))
        open_ = len(self.ledger.of(FetchStarted)) - len(ends)
        run = self.ledger.end
        if open_ or not parts or (run is not None and run.how not in ("returned", "cancelled")):
            parts.append(Telling(self.ledger, "", self.unicode).claimed())
        return "; ".join(_first([part for part in parts if part]))

    def _end(self, end: FetchEnded) -> str:
        if end.how == "returned":
            return f"returned {cut(quoted(end.result, self.unicode), _LONG, self.unicode, end.result_bytes)}"
        kind = safe(end.error_type, self.unicode).removeprefix("builtins.")
        error = cut(safe(end.error, self.unicode), _LONG, self.unicode, len(end.error))
        return " ".join([end.how, ": ".join(filter(None, (kind, error)))]).strip()

    def _shown(self, url: str) -> str:
        """A URL without its origin where that is the server's first one."""
        first = next((one.url for one in self.ledger.of(HttpReceived) if one.origin == "first"), "")
        one, other = urllib.parse.urlsplit(url), urllib.parse.urlsplit(first)
        short = one._replace(scheme="", netloc="").geturl() if one[:2] == other[:2] else url
        return cut(safe(short, self.unicode), _LONG, self.unicode, len(short))


def _counted(parts: Iterable[str]) -> list[str]:
    return [f"{what} ({count} times)" if count > 1 else what for what, count in Counter(parts).items()]


def _first(parts: Iterable[str]) -> list[str]:
    found = list(parts)
    more = len(found) - SHOWN
    return [*found[:SHOWN], *([f"{more} more"] if more > 0 else [])]
