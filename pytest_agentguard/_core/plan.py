"""The plan of one answer: bytes encoded once, marks that say what they mean, and moves at positions.

A fault is a position and an action. ``Plan.steps`` lays the moves out in order; a witness carries them out
and reports how many body bytes left, and ``Plan.delivered`` says what that amounts to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pytest_agentguard._core.events import Event


class End(StrEnum):
    """How the connection ends after the last byte (wire facts §2)."""

    CLEAN = "clean"  # E1, E2, E3: proper framing, or a close where the framing is the close
    CUT = "cut"  # E4: chunked without the zero chunk, or fewer bytes than Content-Length
    RESET = "reset"  # E5
    STALLED = "stalled"  # E6, E7, E8: held until released, then closed without another byte


@dataclass(frozen=True, slots=True)
class Send:
    """Send body bytes, as one HTTP chunk where the framing is chunked."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Send nothing for ``seconds``, then go on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Send nothing, or ``drip`` every ``every`` seconds, until released or for ``limit`` seconds at most."""

    name: str
    limit: float
    why: str = "stall"
    drip: bytes = b""
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Repeat:
    """Send ``data`` again and again until ``size`` bytes have left (a flood is not built in memory)."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Note:
    """Record a fact at this point, before the bytes that follow."""

    kind: type[Event]
    fields: dict[str, Any]


Step = Send | Pause | Hold | Repeat | Note
Move = Pause | Hold | Repeat


@dataclass(frozen=True, slots=True)
class Mark:
    """``what`` is true once ``at`` body bytes have left.

    ``event`` an event is over · ``begun`` the call ``key`` has begun · ``piece`` (part, fragment) has left ·
    ``whole`` the arguments of ``key`` are whole · ``finish-starts`` the next byte is of the finish event ·
    ``finish`` the finish event has left · ``marker`` the strict marker has left.
    """

    at: int
    what: str
    key: str = ""
    piece: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a number of sent bytes amounts to."""

    complete: bool
    begun: tuple[str, ...]
    whole: tuple[str, ...]
    text: str
    fired: bool
    arguments: tuple[str, ...] = ()  # per call in ``begun``: what left, in whole fragments
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one request gets.

    ``stop`` is the number of body bytes that are sent at most (None: all); ``moves`` are (position, move) in
    order; ``chunks`` positions at which a new HTTP chunk starts; ``framing`` is ``chunked``, ``length`` or
    ``close``. ``notes`` are (position, note): recorded before the byte at that position leaves (-1: before
    anything). ``complete_at`` is the position at which the stream counts as complete, None for a reply that
    cannot be complete (an HTTP error, an HTML page). ``fault_at`` is the position at which its fault has
    shown, None for a healthy plan.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    marks: tuple[Mark, ...] = ()
    stop: int | None = None
    moves: tuple[tuple[int, Move], ...] = ()
    chunks: tuple[int, ...] = ()
    framing: str = "chunked"
    end: End = End.CLEAN
    notes: tuple[tuple[int, Note], ...] = ()
    complete_at: int | None = None
    fault_at: int | None = None
    spoken: tuple[tuple[int, str, str], ...] = ()  # (position, call or none, fragment that has left by then)

    @property
    def last(self) -> int:
        """Body bytes that are sent when everything goes as planned, floods and drips apart."""
        return len(self.body) if self.stop is None else min(self.stop, len(self.body))

    def steps(self) -> Iterator[Step]:
        """The moves in order. Notes come before the bytes that they permit."""
        last = self.last
        stops = {p for p, _ in self.moves if p <= last} | {p for p in self.chunks if p < last} | {last}
        moves = sorted(((p, m) for p, m in self.moves if p <= last), key=lambda entry: entry[0])
        notes = sorted(((p, n) for p, n in self.notes), key=lambda entry: entry[0])
        begin = 0
        for position in sorted(stops):
            while notes and notes[0][0] < position:
                yield notes.pop(0)[1]
            if position > begin:
                yield Send(self.body[begin:position])
                begin = position
            while moves and moves[0][0] == position:
                yield moves.pop(0)[1]

    def delivered(self, sent: int) -> Delivered:
        """What ``sent`` body bytes amount to: calls begun, calls whole, text, whether it was complete.

        Bytes of a flood or a drip count for nothing here.
        """
        sent = min(sent, self.last)
        begun: list[str] = []
        whole: list[str] = []
        finished = False
        for mark in self.marks:
            if mark.at > sent:
                continue
            what = mark.what
            if what == "begun" and mark.at < sent:
                begun.append(mark.key)
            elif what == "whole":
                whole.append(mark.key)
            elif what == "finish":
                finished = True
        said: dict[str, list[str]] = {}
        for position, call, fragment in self.spoken:
            if position <= sent:
                said.setdefault(call, []).append(fragment)
        return Delivered(
            complete=self.complete_at is not None and sent >= self.complete_at,
            begun=tuple(begun),
            arguments=tuple(["".join(said.get(key, ())) for key in begun]),
            whole=tuple(whole),
            text="".join(said.get("", ())),
            fired=self.fault_at is None or sent >= self.fault_at,
            finished=finished,
        )
