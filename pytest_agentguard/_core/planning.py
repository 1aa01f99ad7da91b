"""From a reply to a plan: encodes the turn in a dialect, resolves positions, lays out the moves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from pytest_agentguard._core.body import Body
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.events import CallOffered, ErrorSent, ReplyStarted, StreamCompleted, Witness
from pytest_agentguard._core.plan import Mark, Move, Note, Pause, Plan
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.script import NONCE, Split, Where
from pytest_agentguard._core.turn import Ids, Text, ToolCall, Turn


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
    return _turn(reply, turn, nonces, setting)


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
    stops = list(accumulate(map(len, fragments)))
    return tuple(text[begin:stop] for begin, stop in pairwise((0, *stops)))


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


def _turn(reply: Reply, turn: Turn, nonces: dict[str, str], setting: Setting) -> Plan:
    frames = setting.dialect.encode(turn, setting.mode, setting.ids)
    body = Body(frames, turn, reply, setting.dialect, streams=setting.mode == "stream")
    marks = body.marks
    complete = "marker" if setting.strict else "finish"
    reached = next((mark.at for mark in marks if mark.what == complete), None)
    complete_at = None if turn.finish == "missing" else reached
    content_type = reply.content_type or (
        setting.dialect.content_type if body.streams else "application/json"
    )
    return Plan(
        headers=(("Content-Type", content_type), *setting.dialect.response_headers, *reply.headers),
        body=body.data,
        marks=marks,
        stop=body.stop(),
        moves=body.moves(),
        chunks=_chunks(reply.chunks, body),
        framing=reply.framing or ("chunked" if body.streams else "length"),
        end=reply.end,
        notes=(
            _started(reply, setting, 200, content_type, turn),
            *_offered(turn, nonces, marks, setting),
            *_failed(body, setting),
            *_completed(reply, turn, complete_at, setting),
        ),
        complete_at=complete_at,
        fault_at=body.fault_at(),
        spoken=tuple(_spoken(turn, marks)),
    )


def _offered(
    turn: Turn, nonces: dict[str, str], marks: Iterable[Mark], setting: Setting
) -> Iterator[tuple[int, Note]]:
    begun = {mark.key: mark.at for mark in marks if mark.what == "begun"}
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


def _failed(body: Body, setting: Setting) -> Iterator[tuple[int, Note]]:
    where = "event" if body.streams else "body"
    for position, insert in body.errors():
        fields = {"stream": setting.stream, "kind": insert.kind, "where": where}
        yield position, _note(ErrorSent, setting, fields)


def _completed(
    reply: Reply, turn: Turn, complete_at: int | None, setting: Setting
) -> Iterator[tuple[int, Note]]:
    if complete_at is not None:
        failed = any(insert.what == "error" for insert in reply.inserts)
        permits = setting.dialect.finishes[turn.finish].permits and not failed
        fields = {"stream": setting.stream, "permits": permits}
        yield complete_at - 1, _note(StreamCompleted, setting, fields)


def _spoken(turn: Turn, marks: Iterable[Mark]) -> Iterator[tuple[int, str, str]]:
    """Every fragment with the position at which it has left and the call it belongs to; text has none."""
    for mark in marks:
        if mark.what == "piece" and mark.piece is not None:
            part, fragment = turn.parts[mark.piece[0]], mark.piece[1]
            yield mark.at, part.key if isinstance(part, ToolCall) else "", part.fragments[fragment]


def _chunks(split: Split, body: Body) -> tuple[int, ...]:
    data = body.data
    positions: set[int] = set(split.at)
    if split.each:
        positions |= set(range(split.each, len(data), split.each))
    if split.by == "event":
        positions |= {mark.at for mark in body.marks if mark.what == "event"} | body.edges()
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
    wait = _retry_after(reply)
    return -1, _note(ReplyStarted, setting, fields if wait is None else {**fields, "retry_after": wait})


def _retry_after(reply: Reply) -> float | None:
    """The seconds that the reply asks a client to wait; None for a date, and where it does not ask.

    Several SDKs prefer ``retry-after-ms`` where both are there, so nothing longer can be expected of them.
    """
    headers = {name.lower(): value for name, value in reversed(reply.headers)}
    milliseconds, seconds = _number(headers.get("retry-after-ms")), _number(headers.get("retry-after"))
    return seconds if milliseconds is None else milliseconds / 1000


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.replace(".", "", 1).isdecimal() else None


def _note(kind: Any, setting: Setting, fields: dict[str, Any]) -> Note:
    if setting.lane:
        fields = {**fields, "lane": setting.lane}
    return Note(kind, {"witness": Witness.ENDPOINT, **fields})
