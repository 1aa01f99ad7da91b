"""What is recorded about one answer on its way: holds, the client's close, the receipt at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_agentguard._core.events import (
    ClientClosed,
    Event,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    Witness,
)
from pytest_agentguard._core.plan import Hold, Note, Plan
from pytest_agentguard._witnesses.framing import planned_size
from pytest_agentguard._witnesses.script import Played


class Silent:
    """An answer that is no scripted reply: nothing about its delivery is recorded."""

    def __init__(self, count: Callable[[int], None], lane: str = "") -> None:
        self.lane = lane
        self.sent = count
        self.tap: Callable[[bytes], None] | None = None

    def note(self, note: Note) -> None:
        """There is none."""

    def reached(self, at: int) -> None:
        """Nobody asks."""

    def held(self, hold: Hold, sent: int) -> float | None:
        """It never holds."""
        return None

    def released(self, hold: Hold, by: str) -> None:
        """It never holds."""

    def client_closed(self) -> None:
        """Nobody asks."""

    def ended(self, end: str, at: int, flooded: int, gap: float) -> None:
        """Nobody asks."""


class Told:
    """The facts of one scripted answer, recorded in the order in which they become true."""

    def __init__(
        self,
        plan: Plan,
        stream: str,
        *,
        lane: str,
        record: Callable[[type[Event], dict[str, Any]], None],
        count: Callable[[int], None],
        played: Played,
        completed: Callable[[], None],
        hold_limit: float | None,
        tap: Callable[[bytes], None] | None = None,
    ) -> None:
        self.lane = lane
        self.tap = tap
        self.played = played
        self.sent = count
        self._plan = plan
        self._stream = stream
        self._record = record
        self._completed: Callable[[], None] | None = completed if plan.complete_at is not None else None
        self._hold_limit = hold_limit
        self._holds = 0

    def note(self, note: Note) -> None:
        """A fact to record before the bytes that follow."""
        self._record(note.kind, note.fields)

    def reached(self, at: int) -> None:
        """So many bytes of the plan's body have left in all."""
        complete_at = self._plan.complete_at
        if self._completed is not None and complete_at is not None and at >= complete_at:
            completed, self._completed = self._completed, None
            completed()

    def held(self, hold: Hold, sent: int) -> float | None:
        """A hold begins; how long it may last, or None where it has been let go already."""
        self._holds += 1
        self._say(StreamHeld, hold=self._hold(hold), why=hold.why, sent=sent)
        if self.played.let_go:
            return None
        return hold.limit if self._hold_limit is None else self._hold_limit

    def released(self, hold: Hold, by: str) -> None:
        """A hold is over."""
        self._say(StreamReleased, hold=self._hold(hold), by=by)

    def client_closed(self) -> None:
        """The client closed before the answer was over."""
        self._say(ClientClosed)
        self.played.closed.set()

    def ended(self, end: str, at: int, flooded: int, gap: float) -> None:
        """The receipt: what was planned, and what really left."""
        plan = self._plan
        delivered = plan.delivered(at)
        planned = planned_size(plan)
        self._say(
            StreamEnded,
            complete=delivered.complete,
            end=end,
            planned_end=plan.end.value,
            sent=at + flooded,
            planned=planned,
            fired=delivered.fired and (plan.fault_at is None or flooded >= planned - plan.last),
            begun=delivered.begun,
            whole=delivered.whole,
            arguments_sent=delivered.arguments,
            text_sent=delivered.text,
            gap=round(gap, 6),
            finished=delivered.finished,
        )
        if not self.played.ended.is_set():  # replies that are played many times set it once
            self.played.ended.set()

    def _hold(self, hold: Hold) -> str:
        return f"{self._stream}.{hold.name}{self._holds if self._holds > 1 else ''}"

    def _say(self, kind: type[Event], **fields: Any) -> None:
        lane = {"lane": self.lane} if self.lane else {}
        self._record(kind, {"witness": Witness.ENDPOINT, **lane, "stream": self._stream, **fields})


class WireFiles:
    """Keeps what went over the wire, one file a request and one a response, each bounded."""

    def __init__(self, folder: Path, *, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._sizes: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, name: str, data: bytes) -> None:
        """Append to the file ``name``, up to the bound."""
        size = self._sizes.get(name, 0)
        kept = data[: max(0, self._limit - size)]
        self._sizes[name] = size + len(data)
        if kept:
            with (self._folder / name.replace("/", "-")).open("ab") as file:
                file.write(kept)
