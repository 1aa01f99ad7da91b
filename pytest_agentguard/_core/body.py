"""The bytes of an encoded turn with everything that a reply inserts, and positions in them. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._core.plan import Hold, Mark, Move, Repeat
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.script import BEFORE_FINISH, START, Flood, Insert, Where
from pytest_agentguard._core.turn import Frame, Text, Turn

_EVENT_START = b'data: {"endless":"'
_FLOOD_PIECE = 64 * 1024
_COMMENT = b": " + b"keep-alive " * 11 + b"\n\n"
_BEGINNINGS = ("begun", "finish-starts")  # marks of what comes next; all others are of what has left


@dataclass(frozen=True, slots=True)
class _Placed:
    """An insert: where it goes in the encoded turn, where it begins in the final bytes, and its bytes."""

    base: int
    begin: int
    data: bytes
    insert: Insert

    @property
    def ahead(self) -> int:
        """How many inserted bytes there are up to its end."""
        return self.begin - self.base + len(self.data)


class Body:
    """The final bytes of one answer: what is inserted at a position comes before what begins there."""

    def __init__(
        self, frames: Sequence[Frame], turn: Turn, reply: Reply, dialect: Dialect, *, streams: bool
    ) -> None:
        self.streams = streams
        self._turn = turn
        self._reply = reply
        self._dialect = dialect
        self._newline = reply.newline.encode()
        self._frames = frames
        self._pieces = [self._lines(frame.data) for frame in frames]
        self._marks = _marks(frames, self._pieces)
        self._inserts = self._placed()
        self.data = self._joined()
        self.marks = self._moved(self._marks) if self._inserts else self._marks

    def position(self, where: Where) -> int:
        """A position in the final bytes; what is inserted there counts as before it."""
        if where.what == "byte":
            return min(where.n, len(self.data))
        return self._shifted(self._base(where), True)

    def stop(self) -> int | None:
        """How many bytes are sent at most; None for all of them."""
        if self._reply.stop_at is not None:
            return self.position(self._reply.stop_at)
        return None if self._reply.flooded is None else self._shifted(self._flood_at(), True)

    def moves(self) -> tuple[tuple[int, Move], ...]:
        """(position, move) of everything that is not a byte of the body."""
        keep_alive = self._keep_alive()
        moves: list[tuple[int, Move]] = []
        for where, move in self._reply.moves:
            if isinstance(move, Hold) and move.drip == b"\0":
                move = replace(move, drip=keep_alive)
            moves.append((self.position(where), move))
        if self._reply.flooded is not None:
            moves.append((self._shifted(self._flood_at(), True), self._repeat(self._reply.flooded)))
        return tuple(moves)

    def errors(self) -> Iterator[tuple[int, Insert]]:
        """(position, insert) of every error in mid-stream."""
        return ((p.begin, p.insert) for p in self._inserts if p.insert.what == "error")

    def edges(self) -> set[int]:
        """Where inserts begin and end."""
        return {edge for p in self._inserts for edge in (p.begin, p.begin + len(p.data))}

    def fault_at(self) -> int | None:
        """Where the fault has shown: the stop, the last bad insert, the end; None for a healthy reply."""
        stop = self.stop()
        if stop is not None:
            return stop
        places = [p.begin + len(p.data) for p in self._inserts if p.insert.what in ("error", "raw")]
        if any(isinstance(move, Hold) and move.why == "keep-open" for _, move in self._reply.moves):
            places.append(len(self.data))
        if self._turn.finish == "missing":
            places += [mark.at for mark in self.marks if mark.what == "finish"]
        return max(places, default=None)

    # -- inserts

    def _placed(self) -> list[_Placed]:
        reply = self._reply
        entries = [(self._base(i.where), self._lines(self._inserted(i)), i) for i in reply.inserts]
        if reply.bom:
            entries.insert(0, (0, b"\xef\xbb\xbf", Insert(START, "raw")))
        if reply.flooded is not None and reply.flooded.what == "event" and self.streams:
            entries.append((self._flood_at(), _EVENT_START, Insert(BEFORE_FINISH, "raw")))
        placed: list[_Placed] = []
        before = 0
        for base, data, insert in sorted(entries, key=lambda entry: entry[0]):
            placed.append(_Placed(base, base + before, data, insert))
            before += len(data)
        return placed

    def _inserted(self, insert: Insert) -> bytes:
        match insert.what:
            case "error" if self.streams:
                return self._dialect.error_event(insert.kind, insert.message)
            case "error":
                return self._dialect.error_body(200, insert.kind, insert.message)
            case "done":
                return self._dialect.done if self.streams else b""
            case "keep-alive":
                return self._keep_alive() * insert.count
        return insert.data

    def _keep_alive(self) -> bytes:
        return self._dialect.keep_alive if self.streams else b" "

    def _joined(self) -> bytes:
        joined = b"".join(self._pieces)
        made, begin = [], 0
        for placed in self._inserts:
            made += [joined[begin : placed.base], placed.data]
            begin = placed.base
        return b"".join([*made, joined[begin:]])

    def _lines(self, data: bytes) -> bytes:
        return data.replace(b"\n", self._newline) if self.streams and self._newline != b"\n" else data

    # -- positions

    def _moved(self, marks: Sequence[Mark]) -> tuple[Mark, ...]:
        return tuple(replace(m, at=self._shifted(m.at, m.what in _BEGINNINGS)) for m in marks)

    def _shifted(self, position: int, after: bool) -> int:
        """``position`` of the encoded turn in the final bytes, ``after`` what is inserted there or before."""
        find = bisect_right if after else bisect_left
        ahead = find(self._inserts, position, key=lambda placed: placed.base)
        return position + (self._inserts[ahead - 1].ahead if ahead else 0)

    def _base(self, where: Where) -> int:
        """A position in the encoded turn."""
        marks, size = self._marks, sum(map(len, self._pieces))
        match where.what:
            case "start":
                return 0
            case "byte":
                return min(where.n, size)
            case "event":
                ends = [0, *(m.at for m in marks if m.what == "event")]
                return ends[min(max(where.n, 0), len(ends) - 1)]
            case "piece":
                return self._piece(where.part, where.fragment)
            case "before-finish":
                return next((m.at for m in marks if m.what == "finish-starts"), size)
            case "after-finish":
                return next((m.at for m in marks if m.what == "finish"), size)
            case "end":
                return size
        raise UsageError(f"unknown position {where.what!r}")

    def _piece(self, part: int, fragment: int) -> int:
        for mark in self._marks:
            if mark.piece == (part, fragment):
                return mark.at
        raise UsageError(f"the reply has no fragment {fragment} of part {part}")

    # -- floods: one piece over and over, at an event of which nothing but the beginning was sent

    def _flood_at(self) -> int:
        text = self._first_text()
        if text is not None:
            return text[0]
        inside = None if self.streams else next((m.at for m in self._marks if m.what == "piece"), None)
        return self._base(BEFORE_FINISH) if inside is None else inside

    def _repeat(self, flood: Flood) -> Repeat:
        if not self.streams or flood.what == "event":
            return Repeat(b"x" * _FLOOD_PIECE, flood.size)
        text = self._first_text()
        one = text[1] if flood.what == "text" and text is not None else self._flood_keep_alive()
        return Repeat(one * max(1, _FLOOD_PIECE // len(one)), flood.size)

    def _flood_keep_alive(self) -> bytes:
        """A long comment where the dialect has comments: clients take their time for each line."""
        is_sse = self._dialect.content_type == "text/event-stream"
        return _COMMENT if is_sse else self._keep_alive()

    def _first_text(self) -> tuple[int, bytes] | None:
        """The end and the bytes of the first frame with text of the model."""
        at = 0
        for frame, data in zip(self._frames, self._pieces, strict=True):
            at += len(data)
            if frame.piece is not None and data and isinstance(self._turn.parts[frame.piece[0]], Text):
                return at, data
        return None


def _marks(frames: Sequence[Frame], pieces: Sequence[bytes]) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    at = 0
    for frame, data in zip(frames, pieces, strict=True):
        if frame.begins:
            marks += [Mark(at, "begun", key) for key in frame.begins]
        if frame.finish:
            marks.append(Mark(at, "finish-starts"))
        at += len(data)
        if frame.piece is not None:
            marks.append(Mark(at, "piece", piece=frame.piece))
        if frame.wholes:
            marks += [Mark(at, "whole", key) for key in frame.wholes]
        if frame.event:
            marks.append(Mark(at, "event"))
        if frame.finish:
            marks.append(Mark(at, "finish"))
        if frame.marker:
            marks.append(Mark(at, "marker"))
    return tuple(marks)
