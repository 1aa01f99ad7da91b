"""The scripted replies of an endpoint: a queue, and what became of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import LimitReached, UsageError
from pytest_agentguard._core.events import RequestReceived
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._witnesses.signals import Signal


class Played:
    """What became of replies that were played together.

    ``received`` is set when the first of their requests has arrived, ``closed`` when a client closed before
    its answer was over, ``ended`` when an answer was over in whichever way.
    """

    def __init__(self, release: Callable[[Played], None]) -> None:
        self.received = Signal("received")
        self.closed = Signal("closed")
        self.ended = Signal("ended")
        self.requests: list[RequestReceived] = []
        self.let_go = False
        self._release = release

    def __repr__(self) -> str:
        return f"<Played requests={len(self.requests)}>"

    def release(self) -> None:
        """Let go of what these replies hold, now and from now on."""
        self.let_go = True
        self._release(self)


@dataclass(slots=True)
class Scripted:
    """One reply in the queue."""

    reply: Reply
    lane: str
    played: Played
    served: int = 0

    @property
    def waits(self) -> bool:
        """Whether it can still be served."""
        return self.served < self.reply.count

    def fits(self, request: RequestReceived) -> bool:
        """Whether the reply is one for this request."""
        reply = self.reply
        if self.lane != request.lane or reply.dialect not in ("", request.dialect):
            return False
        return reply.matches is None or bool(reply.matches(request))


class Script:
    """Replies in the order in which they were played; any thread may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Scripted] = []
        self._waiting: dict[str, list[Scripted]] = {}  # by lane

    def add(self, replies: tuple[Reply, ...], lane: str, played: Played) -> None:
        """Queue replies. Raises ``LimitReached`` beyond the bound."""
        for reply in replies:
            if not isinstance(reply, Reply):
                raise UsageError(f"play() takes replies, not {reply!r}")
        with self._lock:
            if len(self._entries) + len(replies) > limits.REPLY_QUEUE:
                raise LimitReached(f"more scripted replies than limit={limits.REPLY_QUEUE}")
            entries = [Scripted(reply, lane, played) for reply in replies]
            self._entries += entries
            self._waiting.setdefault(lane, []).extend(entries)

    def take(self, request: RequestReceived) -> Scripted | None:
        """The first reply that waits and fits; it counts as served."""
        with self._lock:
            waiting = list(self._waiting.get(request.lane, ()))
        for entry in waiting:
            if entry.fits(request):
                entry.served += 1
                if not entry.waits:
                    with self._lock:
                        self._waiting[request.lane].remove(entry)
                return entry
        return None

    def left(self, lane: str) -> int:
        """How many replies of a lane wait."""
        with self._lock:
            return len(self._waiting.get(lane, ()))

    def unplayed(self) -> list[str]:
        """One line per reply that no request met, the optional ones left out."""
        with self._lock:
            entries = list(self._entries)
        return [
            f"reply {n} ({described(entry.reply)}){_of_lane(entry.lane)} was scripted and never requested"
            for n, entry in enumerate(entries, 1)
            if not entry.served and not entry.reply.is_optional
        ]


def described(reply: Reply) -> str:
    """A reply in a few words."""
    said = [f"call {call.tool}" for call in reply.turn.calls]
    said += [repr(reply.turn.text[:40])] if reply.turn.text else []
    return ", ".join([*said, reply.label or reply.fault or "healthy"])


def _of_lane(lane: str) -> str:
    return f" of lane={lane}" if lane else ""
