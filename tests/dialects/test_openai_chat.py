"""OpenAI Chat Completions: the documented bytes, the SDK's reading of them, good and bad transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from pytest_agentguard import Decoder, Dialect, Frame, Text, ToolCall, Turn, catalogue
from pytest_agentguard._core.ids import CountedIds

from .conftest import Provider

# wire facts 3.1, the element of ``choices`` of each chunk
DOCUMENTED = {
    "text": r"""
{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}
{"index":0,"delta":{"content":"Hel"},"finish_reason":null}
{"index":0,"delta":{"content":"lo"},"finish_reason":null}
{"index":0,"delta":{},"finish_reason":"stop"}
""",
    "call": r"""
{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":null}
{"index":0,"delta":{},"finish_reason":"tool_calls"}
""",
    "interleaved": r"""
{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"g","arguments":""}}]},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\":"}}]},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"2}"}}]},"finish_reason":null}
{"index":0,"delta":{},"finish_reason":"tool_calls"}
""",
    "text, call": r"""
{"index":0,"delta":{"role":"assistant","content":"Let me "},"finish_reason":null}
{"index":0,"delta":{"content":"look."},"finish_reason":null}
{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}
{"index":0,"delta":{},"finish_reason":"tool_calls"}
""",
}  # fmt: skip
F = ToolCall("f", ('{"a":', "1}"), "call_a", key="c1")
G = ToolCall("g", ('{"b":', "2}"), "call_b", key="c2")
TURNS = {
    "text": Turn((Text(("Hel", "lo")),)),
    "call": Turn((F,), "tool_calls"),
    "interleaved": Turn((F, G), "tool_calls", interleaved=True),
    "text, call": Turn(
        (Text(("Let me ", "look.")), ToolCall("f", ("{}",), "call_a", key="c1")), "tool_calls"
    ),
}
MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture
def dialect() -> Dialect:
    return catalogue.dialect("openai-chat")


@pytest.fixture
def client(provider: Provider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=provider.base_url, api_key="dummy", max_retries=0, timeout=5) as client:
        yield client


def encoded(dialect: Dialect, turn: Turn, mode: str = "stream") -> tuple[Frame, ...]:
    return dialect.encode(turn, mode, CountedIds("0"))


def events(dialect: Dialect, turn: Turn) -> list[Any]:
    data = b"".join(frame.data for frame in encoded(dialect, turn))
    return [e.data if e.data == "[DONE]" else json.loads(e.data) for e in Decoder().feed(data)]


def whole(dialect: Dialect, turn: Turn) -> Any:
    return json.loads(b"".join(frame.data for frame in encoded(dialect, turn, "block")))


# -- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_stream_is_the_documented_one(dialect: Dialect, name: str) -> None:
    *chunks, done = events(dialect, TURNS[name])
    assert [chunk["choices"] for chunk in chunks] == [
        [json.loads(c)] for c in DOCUMENTED[name].split("\n")[1:-1]
    ]
    assert done == "[DONE]"
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {(c["object"], type(c["created"]), bool(c["model"])) for c in chunks} == {
        ("chat.completion.chunk", int, True)
    }


@pytest.mark.parametrize("n", range(4))
def test_the_samples_hold(dialect: Dialect, n: int) -> None:
    class One(CountedIds):
        def response(self) -> str:
            return "1"

    sample = dialect.samples[n]
    frames = dialect.encode(sample.turn, sample.mode, One("0"))
    found = list(Decoder().feed(b"".join(frame.data for frame in frames)))
    assert [e.data if e.data == "[DONE]" else json.loads(e.data) for e in found] == list(sample.events)


@pytest.mark.parametrize("mode", ["stream", "block"])
@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_marks_say_once_what_leaves_and_in_order(dialect: Dialect, turn: Turn, mode: str) -> None:
    frames = encoded(dialect, turn, mode)
    keys = [call.key for call in turn.calls]
    assert [key for frame in frames for key in frame.begins] == keys
    assert sorted(key for frame in frames for key in frame.wholes) == keys
    assert sorted(frame.piece for frame in frames if frame.piece) == sorted(turn.pieces())
    assert [frame.finish for frame in frames].count(True) == 1
    assert [n for n, frame in enumerate(frames) if frame.marker] == [len(frames) - 1]
    if mode == "block":
        assert [frame.event for frame in frames] == [False] * (len(frames) - 1) + [True]


def test_a_fragment_of_a_body_is_its_place_inside_the_json_string(dialect: Dialect) -> None:
    turn = Turn((Text(("a\n", "é")), ToolCall("f", ('{"x": "', '\\n"', "}"), "i", key="c1")), "tool_calls")
    for frame in encoded(dialect, turn, "block"):
        if frame.piece:
            part, fragment = frame.piece
            text = json.loads(b'"' + frame.data + b'"')
            assert text == turn.parts[part].fragments[fragment]
    (choice,) = whole(dialect, turn)["choices"]
    assert choice["message"]["content"] == "a\né"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"x": "\\n"}'


def test_a_call_without_an_id_has_none_on_the_wire(dialect: Dialect) -> None:
    turn = Turn((ToolCall("f", ("{}",), None, key="c1"),), "tool_calls")
    assert "id" not in events(dialect, turn)[1]["choices"][0]["delta"]["tool_calls"][0]
    assert "id" not in whole(dialect, turn)["choices"][0]["message"]["tool_calls"][0]


def test_calls_have_the_indices_that_the_turn_gives(dialect: Dialect) -> None:
    turn = Turn((F, G), "tool_calls", interleaved=True, indices=(1, 3))
    deltas = [c["choices"][0]["delta"] for c in events(dialect, turn)[:-1]]
    assert {call["index"] for delta in deltas for call in delta.get("tool_calls", [])} == {1, 3}


def test_usage_comes_after_the_finish_and_is_null_before(dialect: Dialect) -> None:
    *chunks, usage, _ = events(dialect, Turn((Text(("a",)),), usage=True))
    assert all(chunk["usage"] is None for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 3
    assert "usage" not in events(dialect, Turn((Text(("a",)),)))[0]


def test_a_body_always_has_usage_and_null_content_beside_calls_alone(dialect: Dialect) -> None:
    body = whole(dialect, TURNS["call"])
    assert body["usage"]["total_tokens"] == 3
    assert body["choices"][0]["message"]["content"] is None
    assert whole(dialect, Turn())["choices"][0]["message"]["content"] == ""


def test_ids_of_responses_are_unique(dialect: Dialect) -> None:
    ids = CountedIds("0")
    made = {dialect.encode(Turn(), "block", ids)[0].data for _ in range(20)}
    assert len(made) == 20


@pytest.mark.parametrize(
    ("finish", "wire", "permits"),
    [
        ("stop", "stop", True),
        ("tool_calls", "tool_calls", True),
        ("length", "length", False),
        ("filter", "content_filter", False),
        ("refusal", "content_filter", False),
        ("unknown", "agentguard_unknown", False),
        ("missing", None, False),
    ],
)
def test_finish_reasons(dialect: Dialect, finish: str, wire: str | None, permits: bool) -> None:
    turn = Turn((Text(("a",)),), finish)
    assert events(dialect, turn)[-2]["choices"][0]["finish_reason"] == wire
    assert whole(dialect, turn)["choices"][0]["finish_reason"] == wire
    assert dialect.finishes[finish].permits is permits


def test_a_refusal_is_said_in_its_own_field(dialect: Dialect) -> None:
    turn = Turn((Text(("a",)),), "refusal")
    assert events(dialect, turn)[-3]["choices"][0]["delta"] == {"refusal": "I cannot help with that."}
    assert whole(dialect, turn)["choices"][0]["message"]["refusal"] == "I cannot help with that."
    assert whole(dialect, TURNS["text"])["choices"][0]["message"]["refusal"] is None


@pytest.mark.parametrize("raw", ["", "{", "null", '{"a": NaN}', "\ud800", "\x00\n\u2028"])
@pytest.mark.parametrize("mode", ["stream", "block"])
def test_arguments_arrive_verbatim_whatever_they_are(dialect: Dialect, raw: str, mode: str) -> None:
    turn = Turn((ToolCall("f", (raw[:1], raw[1:]), "i", key="c1"),), "tool_calls")
    if mode == "block":
        got = whole(dialect, turn)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    else:
        deltas = [c["choices"][0]["delta"] for c in events(dialect, turn)[:-1]]
        got = "".join(d["tool_calls"][0]["function"]["arguments"] for d in deltas if "tool_calls" in d)
    assert got == raw


# -- what the official SDK makes of it --------------------------------------------------------------------


def asked(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(model="m", messages=MESSAGES, **more)


@pytest.mark.parametrize("name", TURNS)
def test_the_sdk_reads_the_same_from_stream_and_body(
    client: openai.OpenAI, provider: Provider, name: str
) -> None:
    turn = TURNS[name]
    provider.turns = [turn, turn]
    with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
        choice = stream.get_final_completion().choices[0]
    for message, finish in [
        (choice.message, choice.finish_reason),
        ((body := asked(client).choices[0]).message, body.finish_reason),
    ]:
        calls = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or []]
        assert calls == [(call.id, call.tool, call.arguments) for call in turn.calls]
        assert (message.content or "") == turn.text
        assert finish == turn.finish


def test_the_sdk_reads_usage_after_the_finish(client: openai.OpenAI, provider: Provider) -> None:
    provider.turns = [Turn((Text(("a",)),), usage=True)]
    chunks = list(asked(client, stream=True, stream_options={"include_usage": True}))
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == [3]
    assert not chunks[-1].choices


def test_the_sdk_raises_what_an_error_event_says(client: openai.OpenAI, provider: Provider) -> None:
    first = encoded(provider.dialect, TURNS["text"])[0].data
    provider.answer = (200, first + provider.dialect.error_event("rate-limit", "slow down"))
    stream = asked(client, stream=True)
    assert next(stream).choices[0].delta.content == ""
    with pytest.raises(openai.APIError, match=r"^slow down$") as raised:
        next(stream)
    assert raised.value.code == "rate_limit_exceeded"


STATUSES = {
    "bad-request": (openai.BadRequestError, "invalid_request_error", None),
    "context": (openai.BadRequestError, "invalid_request_error", "context_length_exceeded"),
    "auth": (openai.AuthenticationError, "invalid_request_error", "invalid_api_key"),
    "forbidden": (openai.PermissionDeniedError, "invalid_request_error", None),
    "not-found": (openai.NotFoundError, "invalid_request_error", "model_not_found"),
    "too-large": (openai.APIStatusError, "invalid_request_error", None),
    "unprocessable": (openai.UnprocessableEntityError, "invalid_request_error", None),
    "rate-limit": (openai.RateLimitError, "requests", "rate_limit_exceeded"),
    "quota": (openai.RateLimitError, "insufficient_quota", "insufficient_quota"),
    "server": (openai.InternalServerError, "server_error", None),
    "overloaded": (openai.InternalServerError, "service_unavailable_error", "server_is_overloaded"),
}


@pytest.mark.parametrize("kind", STATUSES)
def test_the_sdk_raises_what_a_status_says(client: openai.OpenAI, provider: Provider, kind: str) -> None:
    expected, type, code = STATUSES[kind]
    status = provider.dialect.statuses[kind]
    provider.answer = (status, provider.dialect.error_body(status, kind, "said so"))
    with pytest.raises(expected, match="said so") as raised:
        asked(client)
    assert (raised.value.status_code, raised.value.type, raised.value.code) == (status, type, code)
    assert raised.value.request_id == "req_agentguard"


def test_every_neutral_kind_has_a_status(dialect: Dialect) -> None:
    assert set(dialect.statuses) == set(STATUSES)


@pytest.mark.parametrize(("status", "type"), [(502, "server_error"), (418, "invalid_request_error")])
def test_an_unknown_kind_goes_by_its_status(dialect: Dialect, status: int, type: str) -> None:
    assert json.loads(dialect.error_body(status, "odd", "x"))["error"]["type"] == type


def test_a_context_overflow_names_both_counts(dialect: Dialect) -> None:
    error = json.loads(dialect.error_body(400, "context", ""))["error"]
    assert "maximum context length is 128000 tokens" in error["message"]
    assert "resulted in 200000 tokens" in error["message"]
    assert error["param"] == "messages"


def test_the_sdk_lists_the_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["m-1", "m-2"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_sdk_reads_past_keep_alives(client: openai.OpenAI, provider: Provider, count: int) -> None:
    frames = encoded(provider.dialect, TURNS["text"])
    data = b"".join(provider.dialect.keep_alive * count + frame.data for frame in frames)
    provider.answer = (200, data)
    assert "".join(c.choices[0].delta.content or "" for c in asked(client, stream=True)) == "Hello"


def test_the_sdk_stops_at_the_marker(client: openai.OpenAI, provider: Provider) -> None:
    provider.answer = (200, provider.dialect.done + b"data: not JSON\n\n")
    assert list(asked(client, stream=True)) == []


def test_a_tool_loop_of_the_sdk_passes_its_transcript(client: openai.OpenAI, provider: Provider) -> None:
    tool: Any = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
    }
    provider.turns = [TURNS["interleaved"], TURNS["text"]]
    message = asked(client, tools=[tool]).choices[0].message
    results = [{"role": "tool", "tool_call_id": c.id, "content": "done"} for c in message.tool_calls or []]
    history = [*MESSAGES, message, *reversed(results)]
    answer = client.chat.completions.create(model="m", messages=history, tools=[tool])
    assert answer.choices[0].message.content == "Hello"
    assert provider.rejected == []
    view = provider.dialect.read("/v1/chat/completions", provider.requests[1])
    assert view.tools == ("f",)
    assert view.call_ids == ("call_a", "call_b")
    assert view.result_ids == ("call_b", "call_a")


# -- requests ---------------------------------------------------------------------------------------------


def read(dialect: Dialect, *messages: Any, **more: Any) -> Any:
    return dialect.read("/v1/chat/completions", {"model": "m", "messages": list(messages), **more})


def test_a_request_says_how_to_answer_and_what_is_on_offer(dialect: Dialect) -> None:
    tools = [
        {"type": "function", "function": {"name": "f"}},
        {"type": "custom", "custom": {"name": "c"}},
        {"type": "web_search"},
        "odd",
    ]
    view = read(dialect, *MESSAGES, stream=True, tools=tools, functions=[{"name": "old"}])
    assert (view.stream, view.model, view.tools) == (True, "m", ("f", "c", "old"))
    assert not read(dialect, *MESSAGES).stream
    assert not read(dialect, *MESSAGES, stream=False).stream


USER = {"role": "user", "content": "hello"}
SYSTEM = {"role": "system", "content": "be brief"}


def asks(*ids: str | None, **more: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"type": "function", "function": function, **({"id": id} if id else {})} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def result(id: str | None, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "content": content, **({"tool_call_id": id} if id else {})}


GOOD = {
    "plain": [USER],
    "system": [SYSTEM, USER, {"role": "assistant", "content": "a"}, USER],
    "developer": [{"role": "developer", "content": "x"}, USER],
    "answered": [USER, asks("a"), result("a")],
    "any order": [USER, asks("a", "b"), result("b"), result("a"), USER],
    "twice in a row": [USER, asks("a"), result("a"), asks("b"), result("b")],
    "same id in another turn": [USER, asks("a"), result("a"), asks("a"), result("a")],
    "same id for two calls": [USER, asks("a", "a"), result("a"), result("a")],
    "no ids at all": [USER, asks(None), result(None)],
    "odd ids": [USER, asks("f.0/é"), result("f.0/é")],
    "content parts": [USER, asks("a"), result("a", [{"type": "text", "text": "x"}])],
    "empty result": [USER, asks("a"), result("a", "")],
    "legacy function": [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
    ],
    "broken arguments are still text": [
        USER,
        asks("a", tool_calls=[{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}]),
        result("a"),
    ],
    "unknown fields": [{**USER, "extra": 1}, {**asks("a"), "reasoning_content": "…"}, result("a")],
    "no calls in the list": [USER, {"role": "assistant", "content": "a", "tool_calls": []}],
}
OBJECT = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}
BAD = {
    "messages is not a list of at least one message": [],
    "messages[0] is not an object": ["hello"],
    "tool_call_id='a' has no result before messages[2]": [USER, asks("a")],
    "tool_call_id='b' has no result before messages[3]": [USER, asks("a", "b"), result("a"), USER],
    "tool_call_id='a' has no result before messages[2] ": [USER, asks("a"), USER, result("a")],
    "tool_call_id='a' has no result before messages[2]  ": [USER, asks("a"), asks("b"), result("b")],
    "tool_call_id='b' has no result before messages[3] ": [
        USER,
        asks("a", "b"),
        result("a"),
        SYSTEM,
        result("b"),
    ],
    "messages[2] is a result with tool_call_id='x', which no call directly before it has": [
        USER,
        asks("a"),
        result("x"),
    ],
    "messages[1] is a result with tool_call_id='a', which no call directly before it has": [
        USER,
        result("a"),
    ],
    "messages[4] is a result with tool_call_id='a', which no call directly before it has": [
        *(USER, asks("a"), result("a"), asks("b")),
        result("a"),
    ],
    "messages[2] is a result with tool_call_id=None, which no call directly before it has": [
        USER,
        asks("a"),
        result(None),
    ],
    "messages[3] is one result too many for tool_call_id='a'": [USER, asks("a"), result("a"), result("a")],
    "messages[2] is a result without content": [USER, asks("a"), result("a", None)],
    "messages[1].tool_calls[0].function.arguments is not a string": [
        USER,
        asks("a", tool_calls=[OBJECT]),
        result("a"),
    ],
}


@pytest.mark.parametrize("messages", GOOD.values(), ids=GOOD)
def test_a_transcript_that_the_provider_takes_has_no_problem(dialect: Dialect, messages: list[Any]) -> None:
    assert read(dialect, *messages).problem == ""


@pytest.mark.parametrize(("problem", "messages"), BAD.items(), ids=map(str, range(len(BAD))))
def test_a_transcript_that_the_provider_rejects_has_its_reason(
    dialect: Dialect, problem: str, messages: list[Any]
) -> None:
    assert read(dialect, *messages).problem == problem.strip()


@pytest.mark.parametrize("body", [{}, {"stream": True}, {"messages": None}, {"tools": 5, "messages": [USER]}])
def test_odd_requests_are_read_without_an_exception(dialect: Dialect, body: dict[str, Any]) -> None:
    view = dialect.read("/chat/completions", body)
    assert (view.problem == "") is (body.get("messages", ()) is not None)
