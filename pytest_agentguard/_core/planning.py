"""From a reply to a plan: encodes the turn in a dialect, resolves positions, lays out the moves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._core.events import CallOffered, ErrorSent, ReplyStarted, StreamCompleted, Witness
from pytest_agentguard._core.plan import Hold, Mark, Move, Note, Pause, Plan, Repeat
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.script import BEFORE_FINISH, NONCE, Flood, Insert, Split, Where
from pytest_agentguard._core.turn import Frame, Ids, Text, ToolCall, Turn

_EVENT_START = b'data: {"endless":"'
_FLOOD_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """What planning needs to know besides the reply: where, how, and under which names."""

    dialect: Dialect
    mode: str
    ids: Ids
    stream: str = "s1"
    request: str = "r1"
    lane: str = ""
    strict: bool = False
    tools: tuple[str, ...] | None = None  # what the request offered; None: unknown


def plan(reply: Reply, setting: Setting) -> Plan:
    """The plan of ``reply`` in this dialect and mode."""
    if reply.http is not None:
        return _http(reply, setting)
    turn = replace(reply.turn, parts=tuple(_named(part, setting.stream) for part in reply.turn.parts))
    turn, nonces = _with_nonces(turn, setting.ids)
    turn = replace(turn, parts=tuple(_with_id(part, setting) for part in turn.parts))
    frames = setting.dialect.encode(turn, setting.mode, setting.ids)
    body = _Body(frames, reply, setting)
    return body.plan(turn, nonces)


# -- the turn ---------------------------------------------------------------------------------------


def _named(part: Text | ToolCall, stream: str) -> Text | ToolCall:
    """A call under its full name, so that marks, receipts and offers say the same: ``s1.c1``."""
    return replace(part, key=f"{stream}.{part.key}") if isinstance(part, ToolCall) else part


def _with_nonces(turn: Turn, ids: Ids) -> tuple[Turn, dict[str, str]]:
    """The turn with every ``{nonce}`` replaced, one value per part, and the values by call key."""
    parts: list[Text | ToolCall] = []
    nonces: dict[str, str] = {}
    for part in turn.parts:
        joined = "".join(part.fragments)
        if NONCE in joined:
            nonce = ids.nonce()
            part = replace(part, fragments=_refit(joined.replace(NONCE, nonce), part.fragments))
            if isinstance(part, ToolCall):
                nonces[part.key] = nonce
        parts.append(part)
    return replace(turn, parts=tuple(parts)), nonces


def _refit(text: str, fragments: Sequence[str]) -> tuple[str, ...]:
    fitted = []
    for fragment in fragments:
        fitted.append(text[: len(fragment)])
        text = text[len(fragment) :]
    return tuple(fitted)


def _with_id(part: Text | ToolCall, setting: Setting) -> Text | ToolCall:
    if isinstance(part, ToolCall) and part.id == "":
        return replace(part, id=setting.dialect.call_prefix + setting.ids.call())
    return part


# -- whole answers that are not a turn ----------------------------------------------------------------


def _http(reply: Reply, setting: Setting) -> Plan:
    http = reply.http
    assert http is not None
    kind, content_type, body = http.kind, reply.content_type or http.content_type, http.body
    if body is None:
        body = setting.dialect.error_body(http.status, kind, http.message or f"{kind} (scripted)")
    wrong = http.status != 200 or kind not in ("", "raw")
    notes = [_started(reply, setting, http.status, content_type, Turn())]
    if wrong and kind != "redirect":
        fields = {"stream": setting.stream, "kind": kind, "where": "body" if http.status == 200 else "status"}
        notes.append((-1, _note(ErrorSent, setting, fields)))
    headers = (("Content-Type", content_type), *setting.dialect.response_headers, *reply.headers)
    stop, moves = _http_positions(reply, len(body))
    return Plan(
        status=http.status,
        headers=headers,
        body=body,
        stop=stop,
        moves=moves,
        framing=reply.framing or "length",
        end=reply.end,
        notes=tuple(notes),
        fault_at=0,
    )


def _http_positions(reply: Reply, size: int) -> tuple[int | None, tuple[tuple[int, Move], ...]]:
    def place(where: Where) -> int:
        return min(where.n, size) if where.what == "byte" else 0 if where.what == "start" else size

    stop = None if reply.stop_at is None else place(reply.stop_at)
    return stop, tuple((place(where), move) for where, move in reply.moves)


# -- a turn on the wire -------------------------------------------------------------------------------


class _Body:
    """The bytes of an encoded turn with everything that the reply inserts, and positions in them."""

    def __init__(self, frames: Sequence[Frame], reply: Reply, setting: Setting) -> None:
        self._reply = reply
        self._setting = setting
        self._streams = setting.mode == "stream"
        newline = reply.newline.encode()
        self._pieces = [self._lines(frame.data, newline) for frame in frames]
        self._frames = frames
        self._marks = _marks(frames, self._pieces)
        self._size = sum(map(len, self._pieces))
        inserts = [(self._base(i.where), self._lines(self._inserted(i), newline), i) for i in reply.inserts]
        if reply.bom:
            inserts.insert(0, (0, b"\xef\xbb\xbf", Insert(Where("start"), "raw")))
        if reply.flooded is not None:
            inserts.append(
                (self._flood_at(), self._flood_prefix(reply.flooded), Insert(BEFORE_FINISH, "raw"))
            )
        self._inserts = sorted(inserts, key=lambda entry: entry[0])

    def plan(self, turn: Turn, nonces: dict[str, str]) -> Plan:
        """Everything put together."""
        reply, setting = self._reply, self._setting
        data = self._data()
        marks = tuple(replace(m, at=self._shift(m.at, m.what == "begun")) for m in self._marks)
        complete_at = next(
            (m.at for m in marks if m.what == ("marker" if setting.strict else "finish")), None
        )
        stop = None if reply.stop_at is None else self.position(reply.stop_at)
        if stop is None and reply.flooded is not None:
            stop = self._shift(self._flood_at(), False)
        content_type = reply.content_type or (
            setting.dialect.content_type if self._streams else "application/json"
        )
        return Plan(
            headers=(("Content-Type", content_type), *setting.dialect.response_headers, *reply.headers),
            body=data,
            marks=marks,
            stop=stop,
            moves=self._moves(),
            chunks=_chunks(reply.chunks, data, marks),
            framing=reply.framing or ("chunked" if self._streams else "length"),
            end=reply.end,
            notes=(
                _started(reply, setting, 200, content_type, turn),
                *self._notes(turn, nonces, marks, complete_at),
            ),
            complete_at=complete_at,
            fault_at=self._fault_at(stop),
            texts=_texts(turn, marks),
            arguments=_arguments(turn, marks),
        )

    def position(self, where: Where) -> int:
        """A position in the final bytes; what is inserted there counts as before it."""
        if where.what == "byte":
            return min(where.n, len(self._data()))
        return self._shift(self._base(where), False)

    def _data(self) -> bytes:
        joined = b"".join(self._pieces)
        made, begin = [], 0
        for position, data, _ in self._inserts:
            made += [joined[begin:position], data]
            begin = position
        return b"".join([*made, joined[begin:]])

    def _shift(self, position: int, before: bool) -> int:
        """Where ``position`` of the encoded turn lies in the final bytes."""
        return position + sum(
            len(d) for p, d, _ in self._inserts if p <= position and not (before and p == position and p)
        )

    def _base(self, where: Where) -> int:
        marks = self._marks
        match where.what:
            case "start":
                return 0
            case "byte":
                return min(where.n, self._size)
            case "event":
                ends = [m.at for m in marks if m.what == "event"]
                return 0 if where.n <= 0 else ends[min(where.n, len(ends)) - 1]
            case "piece":
                wanted = (where.part, where.fragment)
                found = [m.at for m in marks if m.piece == wanted]
                if not found:
                    raise UsageError(f"the reply has no fragment {where.fragment} of part {where.part}")
                return found[0]
            case "before-finish":
                return next((m.at for m in marks if m.what == "finish-starts"), self._size)
            case "after-finish":
                return next((m.at for m in marks if m.what == "finish"), self._size)
            case "end":
                return self._size
        raise UsageError(f"unknown position {where.what!r}")

    def _lines(self, data: bytes, newline: bytes) -> bytes:
        return data.replace(b"\n", newline) if self._streams and newline != b"\n" else data

    def _inserted(self, insert: Insert) -> bytes:
        dialect = self._setting.dialect
        match insert.what:
            case "error":
                if not self._streams:
                    return dialect.error_body(200, insert.kind, insert.message)
                return dialect.error_event(insert.kind, insert.message)
            case "done":
                return dialect.done if self._streams else b""
            case "keep-alive":
                return (dialect.keep_alive if self._streams else b" ") * insert.count
        return insert.data

    def _moves(self) -> tuple[tuple[int, Move], ...]:
        keep_alive = self._setting.dialect.keep_alive if self._streams else b" "
        moves: list[tuple[int, Move]] = []
        for where, move in self._reply.moves:
            if isinstance(move, Hold) and move.drip == b"\0":
                move = replace(move, drip=keep_alive)
            moves.append((self.position(where), move))
        if self._reply.flooded is not None:
            moves.append((self._shift(self._flood_at(), False), self._flood_repeat(self._reply.flooded)))
        return tuple(moves)

    # floods: a prefix that is inserted once, then one piece over and over

    def _flood_at(self) -> int:
        first = [m.at for m in self._marks if m.what == "piece"]
        return first[0] if first else self._base(BEFORE_FINISH)

    def _flood_prefix(self, flood: Flood) -> bytes:
        return _EVENT_START if flood.what == "event" and self._streams else b""

    def _flood_repeat(self, flood: Flood) -> Repeat:
        if not self._streams or flood.what == "event":
            return Repeat(b"x" * _FLOOD_PIECE, flood.size)
        one = self._setting.dialect.keep_alive
        if flood.what == "text":
            one = next((p for f, p in zip(self._frames, self._pieces, strict=True) if f.piece == (0, 0)), one)
        return Repeat(one * max(1, _FLOOD_PIECE // len(one)), flood.size)

    # facts

    def _notes(
        self, turn: Turn, nonces: dict[str, str], marks: Iterable[Mark], complete_at: int | None
    ) -> Iterable[tuple[int, Note]]:
        setting = self._setting
        begun = {m.key: m.at for m in marks if m.what == "begun"}
        for call in turn.calls:
            fields: dict[str, Any] = {
                "stream": setting.stream,
                "call": call.key,
                "tool": call.tool,
                "arguments": call.arguments,
                "nonce": nonces.get(call.key, ""),
                "problem": call.problem,
                "call_id": call.id,
                "known": setting.tools is None or call.tool in setting.tools,
            }
            yield begun.get(call.key, 0), _note(CallOffered, setting, fields)
        for position, data, insert in self._inserts:
            if insert.what == "error":
                fields = {
                    "stream": setting.stream,
                    "kind": insert.kind,
                    "where": "event" if self._streams else "body",
                }
                yield (
                    self._shift(position, True) - (0 if position else len(data)),
                    _note(ErrorSent, setting, fields),
                )
        if complete_at is not None:
            failed = any(i.what == "error" for i in self._reply.inserts)
            permits = setting.dialect.finishes[turn.finish].permits and not failed
            fields = {"stream": setting.stream, "permits": permits}
            yield complete_at - 1, _note(StreamCompleted, setting, fields)

    def _fault_at(self, stop: int | None) -> int | None:
        """Where the fault has shown: the stop, the last bad insert, a flood; None for a healthy reply."""
        reply = self._reply
        if stop is not None:
            return stop
        places = [self._shift(p, False) for p, _, i in self._inserts if i.what in ("error", "raw")]
        if reply.fault == "keep-open":
            places.append(len(self._data()))
        return max(places) if places else None


def _marks(frames: Sequence[Frame], pieces: Sequence[bytes]) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    at = 0
    for frame, data in zip(frames, pieces, strict=True):
        marks += [Mark(at, "begun", key) for key in frame.begins]
        if frame.finish:
            marks.append(Mark(at, "finish-starts"))
        at += len(data)
        if frame.piece is not None:
            marks.append(Mark(at, "piece", piece=frame.piece))
        marks += [Mark(at, "whole", key) for key in frame.wholes]
        if frame.event:
            marks.append(Mark(at, "event"))
        if frame.finish:
            marks.append(Mark(at, "finish"))
        if frame.marker:
            marks.append(Mark(at, "marker"))
    return tuple(marks)


def _texts(turn: Turn, marks: Iterable[Mark]) -> tuple[tuple[int, str], ...]:
    texts: list[tuple[int, str]] = []
    so_far = ""
    for mark in marks:
        if mark.what == "piece" and mark.piece is not None:
            part = turn.parts[mark.piece[0]]
            if isinstance(part, Text):
                so_far += part.fragments[mark.piece[1]]
                texts.append((mark.at, so_far))
    return tuple(texts)


def _arguments(turn: Turn, marks: Iterable[Mark]) -> tuple[tuple[int, str, str], ...]:
    so_far: dict[str, str] = {}
    left: list[tuple[int, str, str]] = []
    for mark in marks:
        part = turn.parts[mark.piece[0]] if mark.what == "piece" and mark.piece is not None else None
        if isinstance(part, ToolCall) and mark.piece is not None:
            so_far[part.key] = so_far.get(part.key, "") + part.fragments[mark.piece[1]]
            left.append((mark.at, part.key, so_far[part.key]))
    return tuple(left)


def _chunks(split: Split, data: bytes, marks: Iterable[Mark]) -> tuple[int, ...]:
    positions: set[int] = set(split.at)
    if split.each:
        positions |= set(range(split.each, len(data), split.each))
    if split.by == "event":
        positions |= {m.at for m in marks if m.what == "event"}
    elif split.by == "utf-8":
        positions |= {n for n in range(1, len(data)) if data[n] & 0xC0 == 0x80}
    elif split.by == "newline":
        positions |= {n for n in range(1, len(data)) if data[n - 1] in b"\r\n" or data[n] in b"\r\n"}
    return tuple(sorted(p for p in positions if 0 < p < len(data)))


def _started(reply: Reply, setting: Setting, status: int, content_type: str, turn: Turn) -> tuple[int, Note]:
    fields: dict[str, Any] = {
        "stream": setting.stream,
        "request": setting.request,
        "label": reply.label or reply.fault or "healthy",
        "status": status,
        "mode": setting.mode,
        "dialect": setting.dialect.id,
        "content_type": content_type,
        "text": turn.text,
        "finish": turn.finish if reply.http is None else "",
        "fault": reply.fault,
        "paused": sum(move.seconds for _, move in reply.moves if isinstance(move, Pause)),
    }
    return -1, _note(ReplyStarted, setting, fields)


def _note(kind: Any, setting: Setting, fields: dict[str, Any]) -> Note:
    if setting.lane:
        fields = {**fields, "lane": setting.lane}
    return Note(kind, {"witness": Witness.ENDPOINT, **fields})
