"""OpenAI Chat Completions: data events with indexed deltas, a finish reason per choice, then ``[DONE]``."""

from __future__ import annotations

import json
from collections import Counter
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

_CREATED = 1_767_225_600  # a fixed second: clients report it, none compares it
_MODEL = "agentguard-model"
_USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
_REFUSAL = "I cannot help with that."
_DONE = b"data: [DONE]\n\n"
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

# A refusal has no finish reason of its own here. ``content_filter`` is the documented one that withdraws
# calls; the refusal text goes where the provider puts it, so a client may go by either.
FINISHES = {
    "stop": Finish("stop", permits=True),  # with calls present it permits them: named tool_choice ends so
    "tool_calls": Finish("tool_calls", permits=True),
    "length": Finish("length", permits=False),
    "filter": Finish("content_filter", permits=False),
    "refusal": Finish("content_filter", permits=False),
    "unknown": Finish("agentguard_unknown", permits=False),
    "missing": Finish(None, permits=False),
}


# -- replies ----------------------------------------------------------------------------------------


def encode(turn: Turn, mode: str, ids: Ids) -> tuple[Frame, ...]:
    """The frames of a turn: one per event of a stream, or the pieces of one JSON body."""
    name = f"chatcmpl-{ids.response()}"
    wire = {
        n: ids.call() if c.id == "" else c.id for n, c in enumerate(turn.parts) if isinstance(c, ToolCall)
    }
    return tuple(_body(turn, name, wire) if mode == "block" else _stream(turn, name, wire))


def _stream(turn: Turn, name: str, wire: Mapping[int, str | None]) -> Iterator[Frame]:
    opening, content = _opening(turn)
    yield Frame(_chunk(turn, name, {"role": "assistant", "content": content}), piece=opening)
    for n, part in enumerate(turn.parts):
        if isinstance(part, ToolCall):
            yield _header(turn, name, n, wire[n])
        if isinstance(part, Text):
            yield from _said(turn, name, n, 1 if opening == (n, 0) else 0)
        elif not turn.interleaved and not _in_header(part):
            yield from (_more_of(turn, name, n, k) for k in range(len(part.fragments)))
    if turn.interleaved:
        yield from _alternating(turn, name)
    yield from _closing(turn, name)


def _opening(turn: Turn) -> tuple[tuple[int, int] | None, str | None]:
    """What comes with the role: the first text of a turn that goes on to a call, else none of it."""
    if not turn.calls:
        return None, ""
    first = turn.parts[0]
    return ((0, 0), first.fragments[0]) if isinstance(first, Text) and first.fragments else (None, None)


def _header(turn: Turn, name: str, n: int, id: str | None) -> Frame:
    """The chunk that opens a call; arguments in one piece come with it."""
    call = turn.parts[n]
    assert isinstance(call, ToolCall)
    keys, whole = (call.key,), _in_header(call)
    opened = _call(call, id, call.arguments if whole else "")
    data = _chunk(turn, name, {"tool_calls": [{"index": _index(turn, n), **opened}]})
    piece = (n, 0) if whole and call.fragments else None
    return Frame(data, begins=keys, wholes=keys if whole else (), piece=piece)


def _in_header(part: Text | ToolCall) -> bool:
    return isinstance(part, ToolCall) and len(part.fragments) <= 1


def _said(turn: Turn, name: str, n: int, first: int) -> Iterator[Frame]:
    """The chunks of a text; only the fragment differs between them, so the rest is encoded once."""
    before, after = _chunk(turn, name, {"content": ""}).split(b'""')
    for k, fragment in enumerate(turn.parts[n].fragments[first:], first):
        yield Frame(before + _json(fragment) + after, piece=(n, k))


def _more_of(turn: Turn, name: str, n: int, k: int) -> Frame:
    """The chunk with one fragment of a call."""
    data = _chunk(turn, name, {"tool_calls": [_more(turn, n, k)]})
    return Frame(data, wholes=_wholes(turn.parts[n], k), piece=(n, k))


def _alternating(turn: Turn, name: str) -> Iterator[Frame]:
    """The fragments of interleaved calls; the last ones share a chunk."""
    calls = [n for n, part in enumerate(turn.parts) if isinstance(part, ToolCall) and not _in_header(part)]
    pieces = [(n, k) for n, k in turn.pieces() if n in calls]
    last = max((k for _, k in pieces), default=0)
    yield from (_more_of(turn, name, n, k) for n, k in pieces if k < last)
    yield from _shared(turn, name, [(n, k) for n, k in pieces if k == last])


def _shared(turn: Turn, name: str, pieces: Sequence[tuple[int, int]]) -> Iterator[Frame]:
    """One chunk with a fragment of several calls, cut into a frame per fragment."""
    data = _chunk(turn, name, {"tool_calls": [_more(turn, *piece) for piece in pieces]})
    for n, k in pieces:
        last = (n, k) == pieces[-1]
        entry = _json(_more(turn, n, k))
        size = len(data) if last else data.index(entry) + len(entry)
        yield Frame(data[:size], wholes=_wholes(turn.parts[n], k), piece=(n, k), event=last)
        data = data[size:]


def _more(turn: Turn, n: int, fragment: int) -> dict[str, Any]:
    return {"index": _index(turn, n), "function": {"arguments": turn.parts[n].fragments[fragment]}}


def _closing(turn: Turn, name: str) -> Iterator[Frame]:
    if turn.finish == "refusal":
        yield Frame(_chunk(turn, name, {"refusal": _REFUSAL}))
    yield Frame(_chunk(turn, name, {}, FINISHES[turn.finish].wire), finish=True)
    if turn.usage:
        yield Frame(encode_event({**_envelope(name), "choices": [], "usage": _USAGE}))
    yield Frame(_DONE, marker=True)


def _chunk(turn: Turn, name: str, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    usage = {"usage": None} if turn.usage else {}
    return encode_event({**_envelope(name), "choices": [choice], **usage})


def _envelope(name: str, kind: str = "chat.completion.chunk") -> dict[str, Any]:
    return {"id": name, "object": kind, "created": _CREATED, "model": _MODEL}


def _call(call: ToolCall, id: str | None, arguments: str) -> dict[str, Any]:
    named = {} if id is None else {"id": id}
    return {**named, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _wholes(part: Text | ToolCall, fragment: int) -> tuple[str, ...]:
    return (part.key,) if isinstance(part, ToolCall) and fragment == len(part.fragments) - 1 else ()


def _index(turn: Turn, n: int) -> int:
    """The wire index of the call that is part ``n``."""
    order = sum(isinstance(part, ToolCall) for part in turn.parts[:n])
    return turn.indices[order] if order < len(turn.indices) else order


# -- whole bodies -----------------------------------------------------------------------------------


def _body(turn: Turn, name: str, wire: Mapping[int, str | None]) -> Iterator[Frame]:
    """The pieces of a body; text comes before the calls, arguments are text inside a JSON string."""
    head = _json({**_envelope(name, "chat.completion"), "choices": []})[:-2]
    head += b'{"index":0,"message":{"role":"assistant","content":'
    texts = [n for n, part in enumerate(turn.parts) if isinstance(part, Text)]
    calls = [n for n, part in enumerate(turn.parts) if isinstance(part, ToolCall)]
    quoted = texts or not calls
    yield Frame(head + (b'"' if quoted else b"null"), event=False)
    for n in texts:
        yield from (
            Frame(_json(f)[1:-1], piece=(n, k), event=False) for k, f in enumerate(turn.parts[n].fragments)
        )
    after = (b'"' if quoted else b"") + b',"refusal":' + _json(_REFUSAL if turn.finish == "refusal" else None)
    for order, n in enumerate(calls):
        part = turn.parts[n]
        assert isinstance(part, ToolCall)
        opened = _json(_call(part, wire[n], ""))[: -len('"}}')]
        begin = after + (b',"tool_calls":[' if order == 0 else b",") + opened
        yield from _arguments(n, part, begin)
        after = b'"}}'
    closed = after + (b"]" if calls else b"")
    finish = _json(FINISHES[turn.finish].wire)
    rest = b'},"logprobs":null,"finish_reason":' + finish + b'}],"usage":' + _json(_USAGE) + b"}"
    yield Frame(closed, event=False)
    yield Frame(rest, finish=True, marker=True)


def _arguments(n: int, call: ToolCall, begin: bytes) -> Iterator[Frame]:
    keys = (call.key,)
    yield Frame(begin, begins=keys, wholes=() if call.fragments else keys, event=False)
    for k, fragment in enumerate(call.fragments):
        yield Frame(_json(fragment)[1:-1], wholes=_wholes(call, k), piece=(n, k), event=False)


def _json(value: Any) -> bytes:
    return _COMPACT.encode(value).encode("utf-8", "backslashreplace")  # a lone surrogate as its JSON escape


# -- requests ---------------------------------------------------------------------------------------


def read(path: str, body: Mapping[str, Any]) -> RequestView:
    """What a request asks for, and why the provider would reject its transcript."""
    messages = _objects(body.get("messages"))
    calls = [call for message in messages for call in _objects(message.get("tool_calls"))]
    results = [message for message in messages if message.get("role") == "tool"]
    return RequestView(
        stream=bool(body.get("stream")),
        model=str(body.get("model") or ""),
        tools=tuple(_offered(body)),
        call_ids=tuple(call["id"] for call in calls if isinstance(call.get("id"), str)),
        result_ids=tuple(m["tool_call_id"] for m in results if isinstance(m.get("tool_call_id"), str)),
        problem=_problem(body),
    )


def _offered(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in [*_objects(body.get("tools")), *_objects(body.get("functions"))]:
        named = tool.get(str(tool.get("type", ""))) or tool
        if isinstance(named, Mapping) and isinstance(named.get("name"), str):
            yield named["name"]


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
    open_calls: list[Any] = []
    answered: Counter[Any] = Counter()
    for n, message in enumerate(messages):
        if message.get("role") == "tool":
            yield from _result_problems(n, message, open_calls, answered)
            continue
        yield from _unanswered(n, open_calls, answered)
        open_calls, answered = [], Counter()
        if message.get("role") == "assistant":
            yield from _call_problems(n, message)
            open_calls = [call.get("id") for call in _objects(message.get("tool_calls"))]
    yield from _unanswered(len(messages), open_calls, answered)


def _call_problems(n: int, message: Mapping[str, Any]) -> Iterator[str]:
    for k, call in enumerate(_objects(message.get("tool_calls"))):
        function = call.get("function")
        if isinstance(function, Mapping) and not isinstance(function.get("arguments"), str):
            yield f"messages[{n}].tool_calls[{k}].function.arguments is not a string"


def _result_problems(
    n: int, message: Mapping[str, Any], open_calls: Sequence[Any], answered: Counter[Any]
) -> Iterator[str]:
    id = message.get("tool_call_id")
    if id not in open_calls:
        yield f"messages[{n}] is a result with tool_call_id={id!r}, which no call directly before it has"
    answered[id] += 1
    if answered[id] > open_calls.count(id):
        yield f"messages[{n}] is one result too many for tool_call_id={id!r}"
    if message.get("content") is None:
        yield f"messages[{n}] is a result without content"


def _unanswered(n: int, open_calls: Sequence[Any], answered: Counter[Any]) -> Iterator[str]:
    for id in dict.fromkeys(open_calls):
        if not answered[id]:
            yield f"tool_call_id={id!r} has no result before messages[{n}]"


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


# -- errors, models ---------------------------------------------------------------------------------

_ERRORS: Mapping[str, tuple[str, str | None, str | None]] = {  # kind: type, code, param
    "bad-request": ("invalid_request_error", None, None),
    "context": ("invalid_request_error", "context_length_exceeded", "messages"),
    "auth": ("invalid_request_error", "invalid_api_key", None),
    "forbidden": ("invalid_request_error", None, None),
    "not-found": ("invalid_request_error", "model_not_found", None),
    "too-large": ("invalid_request_error", None, None),
    "unprocessable": ("invalid_request_error", None, None),
    "rate-limit": ("requests", "rate_limit_exceeded", None),
    "quota": ("insufficient_quota", "insufficient_quota", None),
    "server": ("server_error", None, None),
    "overloaded": ("service_unavailable_error", "server_is_overloaded", None),
}
_CONTEXT = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 200000 tokens."
)


def _error(status: int, kind: str, message: str) -> dict[str, Any]:
    fallback = "server" if status >= 500 else "bad-request"
    type, code, param = _ERRORS.get(kind, _ERRORS[fallback])
    text = f"{_CONTEXT} {message}".rstrip() if kind == "context" else message
    return {"error": {"message": text, "type": type, "param": param, "code": code}}


def error_body(status: int, kind: str, message: str) -> bytes:
    """The body of an HTTP error."""
    return _json(_error(status, kind, message))


def error_event(kind: str, message: str) -> bytes:
    """An error in mid-stream: a data line with a top-level ``error``."""
    return encode_event(_error(500, kind, message))


def models(names: Sequence[str]) -> bytes:
    """The answer to ``GET /models``."""
    data = [{"id": n, "object": "model", "created": _CREATED, "owned_by": "agentguard"} for n in names]
    return _json({"object": "list", "data": data})


# -- samples ----------------------------------------------------------------------------------------


def _sample(turn: Turn, deltas: str) -> Sample:
    """A sample from its deltas, one a line; the last chunk carries the finish reason."""
    choices = [{"delta": json.loads(line), "finish_reason": None} for line in deltas.strip().splitlines()]
    choices.append({"delta": {}, "finish_reason": FINISHES[turn.finish].wire})
    events = [{**_envelope("chatcmpl-1"), "choices": [{"index": 0, **choice}]} for choice in choices]
    return Sample(turn, "stream", [*events, "[DONE]"])


_F = ToolCall("f", ('{"a":', "1}"), "call_a", key="c1")
_G = ToolCall("g", ('{"b":', "2}"), "call_b", key="c2")
_LOOK = (Text(("Let me ", "look.")), ToolCall("f", ("{}",), "call_a", key="c1"))

_TEXT = """
{"role":"assistant","content":""}
{"content":"Hel"}
{"content":"lo"}
"""
_ONE_CALL = r"""
{"role":"assistant","content":null}
{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}
"""
_TWO_CALLS = r"""
{"role":"assistant","content":null}
{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]}
{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"g","arguments":""}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}
{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\":"}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"2}"}}]}
"""
_TEXT_THEN_CALL = r"""
{"role":"assistant","content":"Let me "}
{"content":"look."}
{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"}}]}
"""

SAMPLES = (
    _sample(Turn((Text(("Hel", "lo")),)), _TEXT),
    _sample(Turn((_F,), "tool_calls"), _ONE_CALL),
    _sample(Turn((_F, _G), "tool_calls", interleaved=True), _TWO_CALLS),
    _sample(Turn(_LOOK, "tool_calls"), _TEXT_THEN_CALL),
)

DIALECT = Dialect(
    paths=("/chat/completions",),
    models_path="/models",
    base_path="/v1",
    environment={"OPENAI_BASE_URL": "base_url", "OPENAI_API_KEY": "api_key"},
    finishes=FINISHES,
    encode=encode,
    read=read,
    error_body=error_body,
    error_event=error_event,
    models=models,
    done=_DONE,
    keep_alive=b": keep-alive\n\n",
    statuses=ERROR_STATUS,
    response_headers=(("x-request-id", "req_agentguard"),),
    call_prefix="call_",
    samples=SAMPLES,
)
