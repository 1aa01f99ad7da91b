"""Anthropic Messages: named events, content block by content block, a stop reason, then ``message_stop``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_agentguard import (
    ERROR_STATUS,
    Dialect,
    Finish,
    Frame,
    Ids,
    RequestView,
    Sample,
    Text,
    ToolCall,
    Turn,
    encode_event,
)

_MODEL = "agentguard-model"
_INPUT = {"input_tokens": 3, "output_tokens": 1}
_OUTPUT = {"output_tokens": 9}
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_REFUSED = {"type": "refusal", "category": None, "explanation": "I cannot help with that."}

FINISHES = {
    "stop": Finish("end_turn", permits=False),  # calls run on ``tool_use`` only
    "tool_calls": Finish("tool_use", permits=True),
    "length": Finish("max_tokens", permits=False),
    "filter": Finish("refusal", permits=False),
    "refusal": Finish("refusal", permits=False),
    "unknown": Finish("agentguard_unknown", permits=False),
    "missing": Finish(None, permits=False),
}


# -- replies ----------------------------------------------------------------------------------------


def encode(turn: Turn, mode: str, ids: Ids) -> tuple[Frame, ...]:
    """The frames of a turn: one per event of a stream, or the pieces of one JSON body.

    In a body ``input`` is an object, so the raw arguments stand in it as they are: where they are not JSON,
    the body is not JSON either. Empty arguments are ``{}`` there.
    """
    name = f"msg_{ids.response()}"
    wire = {
        n: ids.call() if c.id == "" else c.id for n, c in enumerate(turn.parts) if isinstance(c, ToolCall)
    }
    return tuple(_body(turn, name, wire) if mode == "block" else _stream(turn, name, wire))


def _stream(turn: Turn, name: str, wire: Mapping[int, str | None]) -> Iterator[Frame]:
    yield Frame(_event("message_start", message=_message(name)))
    calls = [n for n, part in enumerate(turn.parts) if isinstance(part, ToolCall)]
    overlap = calls if turn.interleaved else []
    for n in range(len(turn.parts)):
        if n not in overlap:
            yield _start(turn, n, wire)
            if n == 0 and not calls:
                yield Frame(_event("ping"))
            yield from _deltas(turn, n)
            yield _stop(turn, n)
    yield from (_start(turn, n, wire) for n in overlap)
    deltas = {n: _deltas(turn, n) for n in overlap}
    yield from (next(deltas[n]) for n, _ in turn.pieces() if n in overlap)
    yield from (_stop(turn, n) for n in overlap)
    yield Frame(_event("message_delta", delta=_stopped(turn), usage=_OUTPUT), finish=True)
    yield Frame(_event("message_stop"), marker=True)


def _start(turn: Turn, n: int, wire: Mapping[int, str | None]) -> Frame:
    part = turn.parts[n]
    if isinstance(part, Text):
        return Frame(
            _event("content_block_start", index=_index(turn, n), content_block={"type": "text", "text": ""})
        )
    block = {**_tool_use(part, wire[n]), "input": {}}
    data = _event("content_block_start", index=_index(turn, n), content_block=block)
    return Frame(data, begins=(part.key,), wholes=() if part.fragments else (part.key,))


def _deltas(turn: Turn, n: int) -> Iterator[Frame]:
    """The events with the fragments of a part; nothing else differs between them, so it is encoded once."""
    part = turn.parts[n]
    text = {"type": "text_delta", "text": ""}
    delta = text if isinstance(part, Text) else {"type": "input_json_delta", "partial_json": ""}
    before, after = _event("content_block_delta", index=_index(turn, n), delta=delta).split(b'""')
    for k, fragment in enumerate(part.fragments):
        yield Frame(before + _json(fragment) + after, wholes=_wholes(part, k), piece=(n, k))


def _stop(turn: Turn, n: int) -> Frame:
    return Frame(_event("content_block_stop", index=_index(turn, n)))


def _event(type: str, **fields: Any) -> bytes:
    return encode_event({"type": type, **fields}, type)


def _message(name: str) -> dict[str, Any]:
    head = {"id": name, "type": "message", "role": "assistant", "model": _MODEL, "content": []}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": _INPUT}


def _stopped(turn: Turn) -> dict[str, Any]:
    stopped = {"stop_reason": FINISHES[turn.finish].wire, "stop_sequence": None}
    return {**stopped, "stop_details": _REFUSED} if stopped["stop_reason"] == "refusal" else stopped


def _tool_use(call: ToolCall, id: str | None) -> dict[str, Any]:
    return {"type": "tool_use", **({} if id is None else {"id": id}), "name": call.tool}


def _wholes(part: Text | ToolCall, k: int) -> tuple[str, ...]:
    return (part.key,) if isinstance(part, ToolCall) and k == len(part.fragments) - 1 else ()


def _index(turn: Turn, n: int) -> int:
    """The block index of part ``n``; given indices of calls count from the first call's block."""
    calls = [m for m, part in enumerate(turn.parts) if isinstance(part, ToolCall)]
    if n in calls and calls.index(n) < len(turn.indices):
        return calls[0] + turn.indices[calls.index(n)]
    return n


# -- whole bodies -----------------------------------------------------------------------------------


def _body(turn: Turn, name: str, wire: Mapping[int, str | None]) -> Iterator[Frame]:
    head = {"id": name, "type": "message", "role": "assistant", "model": _MODEL, "content": []}
    between = _json(head)[:-2]
    for n, part in enumerate(turn.parts):
        opened = (
            b'{"type":"text","text":"' if isinstance(part, Text) else _json(_tool_use(part, wire[n]))[:-1]
        )
        if isinstance(part, Text):
            yield Frame(between + opened, event=False)
            yield from (
                Frame(_json(f)[1:-1], piece=(n, k), event=False) for k, f in enumerate(part.fragments)
            )
            between = b'"},'
        else:
            yield from _input(n, part, between + opened + b',"input":')
            between = b"},"
    yield Frame(between[:-1] + b"]" if turn.parts else between + b"]", event=False)
    usage = _json({**_INPUT, **_OUTPUT})
    yield Frame(b"," + _json(_stopped(turn))[1:-1] + b',"usage":' + usage + b"}", finish=True, marker=True)


def _input(n: int, call: ToolCall, begin: bytes) -> Iterator[Frame]:
    keys = (call.key,)
    empty = not call.arguments
    yield Frame(
        begin + (b"{}" if empty else b""), begins=keys, wholes=() if call.fragments else keys, event=False
    )
    for k, fragment in enumerate(call.fragments):
        data = fragment.encode("utf-8", "backslashreplace")
        yield Frame(data, wholes=_wholes(call, k), piece=(n, k), event=False)


def _json(value: Any) -> bytes:
    return _COMPACT.encode(value).encode("utf-8", "backslashreplace")  # a lone surrogate as its JSON escape


# -- requests ---------------------------------------------------------------------------------------


def read(path: str, body: Mapping[str, Any]) -> RequestView:
    """What a request asks for, and why the provider would reject its transcript."""
    blocks = [block for message in _objects(body.get("messages")) for block in _blocks(message)]
    threaded = bool(body.get("thread"))
    return RequestView(
        stream=bool(body.get("stream")),
        model=str(body.get("model") or ""),
        tools=tuple(t["name"] for t in _objects(body.get("tools")) if isinstance(t.get("name"), str)),
        call_ids=_ids(blocks, "tool_use", "id"),
        result_ids=_ids(blocks, "tool_result", "tool_use_id"),
        problem="" if threaded else _problem(body),
        unsupported=_THREADLESS if threaded else b"",
    )


def _ids(blocks: Sequence[Mapping[str, Any]], type: str, name: str) -> tuple[str, ...]:
    return tuple(b[name] for b in blocks if b.get("type") == type and isinstance(b.get(name), str))


def _problem(body: Mapping[str, Any]) -> str:
    """The first reason to reject the transcript. A body without one is not judged."""
    messages = body.get("messages", ())
    if messages == ():
        return ""
    if not isinstance(messages, list) or not messages:
        return "messages is not a list of at least one message"
    odd = next((n for n, message in enumerate(messages) if not isinstance(message, Mapping)), None)
    return next(_problems(messages), "") if odd is None else f"messages[{odd}] is not an object"


def _problems(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from _shape_problems(messages)
    open_calls: list[Any] = []
    for n, role, blocks in _rounds(messages):
        if role == "user":
            yield from _result_problems(n, blocks, open_calls)
            open_calls = []
        else:
            open_calls = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    for id in open_calls:
        yield f"tool_use {id!r} has no tool_result after it"


def _shape_problems(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    first = ""
    for n, message in enumerate(messages):
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            yield f"messages[{n}] has role={role!r}"
        if role != "system" and not first:
            first = str(role)
            if role == "assistant":
                yield f"messages[{n}] comes first and has role='assistant'"
        last = role == "assistant" and n == len(messages) - 1
        if not message.get("content") and not last:
            yield f"messages[{n}] has empty content"
        for k, block in enumerate(_blocks(message)):
            if block.get("type") == "tool_use" and not isinstance(block.get("input"), Mapping):
                yield f"messages[{n}].content[{k}].input is not an object"


def _rounds(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str, list[Mapping[str, Any]]]]:
    """(index of the first message, role, blocks); the provider joins neighbours of one role."""
    begin, role, blocks = 0, "", list[Mapping[str, Any]]()
    for n, message in enumerate(messages):
        if message.get("role") == "system":
            continue
        if role and message["role"] != role:
            yield begin, role, blocks
            blocks = []
        if not blocks:
            begin = n
        role = message["role"]
        blocks += _blocks(message)
    if role:
        yield begin, role, blocks


def _result_problems(n: int, blocks: Sequence[Mapping[str, Any]], open_calls: Sequence[Any]) -> Iterator[str]:
    results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    for id in dict.fromkeys(results):
        if id not in open_calls:
            yield f"messages[{n}] has a tool_result for {id!r}, which no call directly before it has"
        elif results.count(id) > open_calls.count(id):
            yield f"messages[{n}] has one tool_result too many for {id!r}"
    for id in dict.fromkeys(open_calls):
        if id not in results:
            yield f"tool_use {id!r} has no tool_result in messages[{n}]"
    if any(block.get("type") != "tool_result" for block in blocks[: len(results)]):
        yield f"messages[{n}] has other content before a tool_result"


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


# -- errors, models ---------------------------------------------------------------------------------

_ERRORS = {
    "bad-request": "invalid_request_error",
    "context": "invalid_request_error",
    "auth": "authentication_error",
    "forbidden": "permission_error",
    "not-found": "not_found_error",
    "too-large": "request_too_large",
    "unprocessable": "invalid_request_error",
    "rate-limit": "rate_limit_error",
    "quota": "rate_limit_error",
    "server": "api_error",
    "overloaded": "overloaded_error",
}
_BY_STATUS = {402: "billing_error", 409: "conflict_error", 504: "timeout_error"}
_CONTEXT = "prompt is too long: 200000 tokens > 128000 maximum"
_REQUEST_ID = "req_agentguard"


def _error(status: int, kind: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    fallback = "api_error" if status >= 500 else "invalid_request_error"
    type = _BY_STATUS.get(status) or _ERRORS.get(kind, fallback)
    if kind == "context":
        message = f"{_CONTEXT} {message}".rstrip()
    elif kind == "quota":
        details = {"error_code": "enforced_spend_limit_reached"}
    error = {"type": type, "message": message, **({"details": details} if details else {})}
    return {"type": "error", "error": error, "request_id": _REQUEST_ID}


def error_body(status: int, kind: str, message: str) -> bytes:
    """The body of an HTTP error."""
    return _json(_error(status, kind, message))


def error_event(kind: str, message: str) -> bytes:
    """An error in mid-stream: the event ``error`` with the body of an HTTP error."""
    return encode_event(_error(0, kind, message), "error")


# A runner that keeps its history on the server resends all of it once it reads this.
_NO_THREAD = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
_THREADLESS = _json(_error(400, "bad-request", "thread is not supported here", _NO_THREAD))


def models(names: Sequence[str]) -> bytes:
    """The answer to ``GET /v1/models``."""
    created = "2026-01-01T00:00:00Z"
    data = [{"type": "model", "id": n, "display_name": n, "created_at": created} for n in names]
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return _json({"data": data, "has_more": False, **ends})


# -- samples ----------------------------------------------------------------------------------------


def _sample(turn: Turn, events: str) -> Sample:
    """A sample from what lies between its first event and its last two."""
    first = {"type": "message_start", "message": _message("msg_1")}
    stopped = {"stop_reason": FINISHES[turn.finish].wire, "stop_sequence": None}
    last = {"type": "message_delta", "delta": stopped, "usage": _OUTPUT}
    between = [json.loads(line) for line in events.strip().splitlines()]
    return Sample(turn, "stream", [first, *between, last, {"type": "message_stop"}])


_TEXT = """
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"ping"}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}
{"type":"content_block_stop","index":0}
"""
_ONE_CALL = r"""
{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"1}"}}
{"type":"content_block_stop","index":0}
"""
_TWO_CALLS = r"""
{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_b","name":"g","input":{}}}
{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"b\":2}"}}
{"type":"content_block_stop","index":1}
"""
_TEXT_THEN_CALL = r"""
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me look."}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}
{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}
{"type":"content_block_stop","index":1}
"""


_TWO = (ToolCall("f", ('{"a":1}',), "toolu_a", key="c1"), ToolCall("g", ('{"b":2}',), "toolu_b", key="c2"))
_LOOK = (Text(("Let me look.",)), ToolCall("f", ("{}",), "toolu_a", key="c1"))

SAMPLES = (
    _sample(Turn((Text(("Hello",)),)), _TEXT),
    _sample(Turn((ToolCall("f", ("", '{"a":', "1}"), "toolu_a", key="c1"),), "tool_calls"), _ONE_CALL),
    _sample(Turn(_TWO, "tool_calls"), _TWO_CALLS),
    _sample(Turn(_LOOK, "tool_calls"), _TEXT_THEN_CALL),
)

DIALECT = Dialect(
    paths=("/messages",),
    models_path="/models",
    base_path="",
    environment={"ANTHROPIC_BASE_URL": "base_url", "ANTHROPIC_API_KEY": "api_key"},
    finishes=FINISHES,
    encode=encode,
    read=read,
    error_body=error_body,
    error_event=error_event,
    models=models,
    done=_event("message_stop"),
    keep_alive=_event("ping"),
    statuses={**ERROR_STATUS, "overloaded": 529},
    response_headers=(("request-id", _REQUEST_ID),),
    call_prefix="toolu_",
    samples=SAMPLES,
)
