"""Anthropic Messages: the documented bytes, the SDK's reading of them, good and bad transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from pytest_agentguard import Decoder, Dialect, Frame, Text, ToolCall, Turn, catalogue
from pytest_agentguard._core.ids import CountedIds

from .conftest import Provider

# wire facts 3.3, without the message_start that all of them have
DOCUMENTED = {
    "text": r"""
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"ping"}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}
{"type":"content_block_stop","index":0}
{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}
{"type":"message_stop"}
""",
    "call": r"""
{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"1}"}}
{"type":"content_block_stop","index":0}
{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}
{"type":"message_stop"}
""",
    "two calls": r"""
{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_b","name":"g","input":{}}}
{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"b\":2}"}}
{"type":"content_block_stop","index":1}
{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}
{"type":"message_stop"}
""",
    "text, call": r"""
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me look."}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}
{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}
{"type":"content_block_stop","index":1}
{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}
{"type":"message_stop"}
""",
}
F = ToolCall("f", ("", '{"a":', "1}"), "toolu_a", key="c1")
G = ToolCall("g", ('{"b":', "2}"), "toolu_b", key="c2")
TURNS = {
    "text": Turn((Text(("Hello",)),)),
    "call": Turn((F,), "tool_calls"),
    "two calls": Turn(
        (ToolCall("f", ('{"a":1}',), "toolu_a", key="c1"), ToolCall("g", ('{"b":2}',), "toolu_b", key="c2")),
        "tool_calls",
    ),
    "text, call": Turn((Text(("Let me look.",)), ToolCall("f", ("{}",), "toolu_a", key="c1")), "tool_calls"),
}
OVERLAP = Turn((Text(("Let me ", "look.")), F, G), "tool_calls", interleaved=True)
MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture
def dialect() -> Dialect:
    return catalogue.dialect("anthropic")


@pytest.fixture
def client(provider: Provider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.base_url, api_key="dummy", max_retries=0, timeout=5) as client:
        yield client


def encoded(dialect: Dialect, turn: Turn, mode: str = "stream") -> tuple[Frame, ...]:
    return dialect.encode(turn, mode, CountedIds("0"))


def events(dialect: Dialect, turn: Turn) -> list[Any]:
    found = list(Decoder().feed(b"".join(frame.data for frame in encoded(dialect, turn))))
    data = [json.loads(event.data) for event in found]
    assert [event.event for event in found] == [event["type"] for event in data]
    return data


def body_of(dialect: Dialect, turn: Turn) -> bytes:
    return b"".join(frame.data for frame in encoded(dialect, turn, "block"))


# -- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_stream_is_the_documented_one(dialect: Dialect, name: str) -> None:
    first, *rest = events(dialect, TURNS[name])
    assert rest == [json.loads(line) for line in DOCUMENTED[name].split("\n")[1:-1]]
    message = first["message"]
    assert message.pop("id").startswith("msg_")
    assert message.pop("model")
    assert message == {
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }


@pytest.mark.parametrize("n", range(4))
def test_the_samples_hold(dialect: Dialect, n: int) -> None:
    class One(CountedIds):
        def response(self) -> str:
            return "1"

    sample = dialect.samples[n]
    data = b"".join(frame.data for frame in dialect.encode(sample.turn, sample.mode, One("0")))
    assert [json.loads(event.data) for event in Decoder().feed(data)] == list(sample.events)


@pytest.mark.parametrize("mode", ["stream", "block"])
@pytest.mark.parametrize("turn", [*TURNS.values(), OVERLAP], ids=[*TURNS, "overlap"])
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


def test_blocks_come_one_after_the_other_and_overlap_only_when_interleaved(dialect: Dialect) -> None:
    def order(turn: Turn) -> list[tuple[str, int]]:
        wanted = ("content_block_start", "content_block_stop")
        return [(e["type"][14:], e["index"]) for e in events(dialect, turn) if e["type"] in wanted]

    start, stop = "start", "stop"
    assert order(Turn(OVERLAP.parts)) == [(start, 0), (stop, 0), (start, 1), (stop, 1), (start, 2), (stop, 2)]
    assert order(OVERLAP) == [(start, 0), (stop, 0), (start, 1), (start, 2), (stop, 1), (stop, 2)]


def test_given_indices_count_from_the_block_of_the_first_call(dialect: Dialect) -> None:
    turn = Turn(OVERLAP.parts, "tool_calls", interleaved=True, indices=(0, 2))
    starts = [e["index"] for e in events(dialect, turn) if e["type"] == "content_block_start"]
    assert starts == [0, 1, 3]


def test_a_call_without_an_id_has_none_on_the_wire(dialect: Dialect) -> None:
    turn = Turn((ToolCall("f", ("{}",), None, key="c1"),), "tool_calls")
    assert "id" not in events(dialect, turn)[1]["content_block"]
    assert "id" not in json.loads(body_of(dialect, turn))["content"][0]


def test_a_body_has_text_and_input_as_they_are(dialect: Dialect) -> None:
    turn = Turn((Text(("a\n", "é")), ToolCall("f", ('{"x": "', '\\n"', "}"), "i", key="c1")), "tool_calls")
    body = json.loads(body_of(dialect, turn))
    assert body["content"] == [
        {"type": "text", "text": "a\né"},
        {"type": "tool_use", "id": "i", "name": "f", "input": {"x": "\n"}},
    ]
    assert body["usage"] == {"input_tokens": 3, "output_tokens": 9}
    for frame in encoded(dialect, turn, "block"):
        if frame.piece and frame.piece[0] == 1:
            assert frame.data.decode() == turn.parts[1].fragments[frame.piece[1]]


@pytest.mark.parametrize("fragments", [(), ("",), ("", "")])
def test_empty_arguments_are_an_empty_object_in_a_body(dialect: Dialect, fragments: tuple[str, ...]) -> None:
    turn = Turn((ToolCall("f", fragments, "i", key="c1"),), "tool_calls")
    assert json.loads(body_of(dialect, turn))["content"][0]["input"] == {}


def test_arguments_that_are_not_json_break_the_body_itself(dialect: Dialect) -> None:
    turn = Turn((ToolCall("f", ('{"x": ',), "i", key="c1"),), "tool_calls")
    body = body_of(dialect, turn)
    assert b'"input":{"x": }' in body
    with pytest.raises(ValueError):
        json.loads(body)


@pytest.mark.parametrize("raw", ["", "{", "null", '{"a": NaN}', "\ud800", "\x00\n\u2028"])
def test_arguments_of_a_stream_arrive_verbatim_whatever_they_are(dialect: Dialect, raw: str) -> None:
    turn = Turn((ToolCall("f", (raw[:1], raw[1:]), "i", key="c1"),), "tool_calls")
    deltas = [event["delta"] for event in events(dialect, turn) if event["type"] == "content_block_delta"]
    assert "".join(delta["partial_json"] for delta in deltas) == raw


def test_an_empty_turn_is_a_message_without_blocks(dialect: Dialect) -> None:
    assert [e["type"] for e in events(dialect, Turn())] == ["message_start", "message_delta", "message_stop"]
    assert json.loads(body_of(dialect, Turn()))["content"] == []


def test_ids_of_responses_are_unique(dialect: Dialect) -> None:
    ids = CountedIds("0")
    assert len({dialect.encode(Turn(), "block", ids)[0].data for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("finish", "wire", "permits"),
    [
        ("stop", "end_turn", False),
        ("tool_calls", "tool_use", True),
        ("length", "max_tokens", False),
        ("filter", "refusal", False),
        ("refusal", "refusal", False),
        ("unknown", "agentguard_unknown", False),
        ("missing", None, False),
    ],
)
def test_stop_reasons(dialect: Dialect, finish: str, wire: str | None, permits: bool) -> None:
    turn = Turn((Text(("a",)),), finish)
    delta = events(dialect, turn)[-2]["delta"]
    body = json.loads(body_of(dialect, turn))
    assert (delta["stop_reason"], body["stop_reason"]) == (wire, wire)
    assert ("stop_details" in delta, "stop_details" in body) == (wire == "refusal", wire == "refusal")
    assert dialect.finishes[finish].permits is permits


# -- what the official SDK makes of it --------------------------------------------------------------------


def asked(client: anthropic.Anthropic, **more: Any) -> Any:
    return client.messages.create(model="m", max_tokens=100, messages=MESSAGES, **more)


def content(message: Any) -> list[Any]:
    return [
        block.text if block.type == "text" else (block.id, block.name, block.input)
        for block in message.content
    ]


def planned(turn: Turn) -> list[Any]:
    return [
        part.text if isinstance(part, Text) else (part.id, part.tool, json.loads(part.arguments))
        for part in turn.parts
    ]


@pytest.mark.parametrize("turn", [*TURNS.values(), OVERLAP], ids=[*TURNS, "overlap"])
def test_the_sdk_reads_the_same_from_stream_and_body(
    client: anthropic.Anthropic, provider: Provider, turn: Turn
) -> None:
    provider.turns = [turn, turn]
    with client.messages.stream(model="m", max_tokens=100, messages=MESSAGES) as stream:
        streamed = stream.get_final_message()
    whole = asked(client)
    assert content(streamed) == content(whole) == planned(turn)
    wire = provider.dialect.finishes[turn.finish].wire
    assert (streamed.stop_reason, whole.stop_reason) == (wire, wire)
    assert streamed.usage.output_tokens == whole.usage.output_tokens == 9
    assert streamed.id != whole.id


def test_the_sdk_shows_a_refusal(client: anthropic.Anthropic, provider: Provider) -> None:
    turn = Turn((Text(("a",)),), "refusal")
    provider.turns = [turn, turn]
    with client.messages.stream(model="m", max_tokens=100, messages=MESSAGES) as stream:
        streamed: Any = stream.get_final_message()
    for message in (streamed, asked(client)):
        assert message.stop_reason == "refusal"
        assert message.stop_details.explanation == "I cannot help with that."


def test_the_sdk_raises_what_an_error_event_says(client: anthropic.Anthropic, provider: Provider) -> None:
    first = encoded(provider.dialect, TURNS["text"])[0].data
    provider.answer = (200, first + provider.dialect.error_event("overloaded", "busy"))
    stream = asked(client, stream=True)
    assert next(stream).type == "message_start"
    with pytest.raises(anthropic.APIStatusError) as raised:
        next(stream)
    assert raised.value.status_code == 200
    assert raised.value.body == json.loads(provider.dialect.error_body(0, "overloaded", "busy"))


STATUSES = {
    "bad-request": (anthropic.BadRequestError, "invalid_request_error"),
    "context": (anthropic.BadRequestError, "invalid_request_error"),
    "auth": (anthropic.AuthenticationError, "authentication_error"),
    "forbidden": (anthropic.PermissionDeniedError, "permission_error"),
    "not-found": (anthropic.NotFoundError, "not_found_error"),
    "too-large": (anthropic.APIStatusError, "request_too_large"),
    "unprocessable": (anthropic.UnprocessableEntityError, "invalid_request_error"),
    "rate-limit": (anthropic.RateLimitError, "rate_limit_error"),
    "quota": (anthropic.RateLimitError, "rate_limit_error"),
    "server": (anthropic.InternalServerError, "api_error"),
    "overloaded": (anthropic.InternalServerError, "overloaded_error"),
}


@pytest.mark.parametrize("kind", STATUSES)
def test_the_sdk_raises_what_a_status_says(
    client: anthropic.Anthropic, provider: Provider, kind: str
) -> None:
    expected, type = STATUSES[kind]
    status = provider.dialect.statuses[kind]
    provider.answer = (status, provider.dialect.error_body(status, kind, "said so"))
    with pytest.raises(expected, match="said so") as raised:
        asked(client)
    body: Any = raised.value.body
    assert (raised.value.status_code, body["type"], body["error"]["type"]) == (status, "error", type)
    assert body["request_id"] == raised.value.request_id == "req_agentguard"


def test_every_neutral_kind_has_a_status_and_overload_its_own(dialect: Dialect) -> None:
    assert set(dialect.statuses) == set(STATUSES)
    assert dialect.statuses["overloaded"] == 529


@pytest.mark.parametrize(
    ("status", "kind", "type"),
    [
        (402, "bad-request", "billing_error"),
        (409, "bad-request", "conflict_error"),
        (504, "server", "timeout_error"),
        (502, "odd", "api_error"),
        (418, "odd", "invalid_request_error"),
    ],
)
def test_some_statuses_have_a_type_of_their_own(dialect: Dialect, status: int, kind: str, type: str) -> None:
    assert json.loads(dialect.error_body(status, kind, "x"))["error"]["type"] == type


def test_a_spent_quota_says_that_waiting_does_not_help(dialect: Dialect) -> None:
    error = json.loads(dialect.error_body(429, "quota", "x"))["error"]
    assert error["details"] == {"error_code": "enforced_spend_limit_reached"}


def test_a_context_overflow_names_both_counts(dialect: Dialect) -> None:
    error = json.loads(dialect.error_body(400, "context", ""))["error"]
    assert error["message"] == "prompt is too long: 200000 tokens > 128000 maximum"


def test_the_sdk_lists_the_models(client: anthropic.Anthropic, dialect: Dialect) -> None:
    assert [model.id for model in client.models.list()] == ["m-1", "m-2"]
    assert json.loads(dialect.models([])) == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


@pytest.mark.parametrize("count", [1, 3])
def test_the_sdk_reads_past_keep_alives(client: anthropic.Anthropic, provider: Provider, count: int) -> None:
    frames = encoded(provider.dialect, TURNS["text"])
    provider.answer = (200, b"".join(provider.dialect.keep_alive * count + frame.data for frame in frames))
    with client.messages.stream(model="m", max_tokens=100, messages=MESSAGES) as stream:
        assert stream.get_final_text() == "Hello"


@anthropic.beta_tool
def f(a: int = 0) -> str:
    """A tool."""
    return f"done {a}"


def test_a_tool_loop_of_the_sdk_falls_back_from_a_thread_and_passes_its_transcript(
    client: anthropic.Anthropic, provider: Provider
) -> None:
    provider.turns = [TURNS["call"], TURNS["text"]]
    runner = client.beta.messages.tool_runner(model="m", max_tokens=100, tools=[f], messages=MESSAGES)
    assert content(runner.until_done()) == ["Hello"]
    assert set(provider.rejected) == {"unsupported"}
    assert "thread" in provider.requests[0]
    last = provider.dialect.read("/v1/messages", provider.requests[-1])
    assert (last.tools, last.call_ids, last.result_ids) == (("f",), ("toolu_a",), ("toolu_a",))
    assert last.problem == ""


# -- requests ---------------------------------------------------------------------------------------------


def read(dialect: Dialect, *messages: Any, **more: Any) -> Any:
    return dialect.read("/v1/messages", {"model": "m", "max_tokens": 9, "messages": list(messages), **more})


def test_a_request_says_how_to_answer_and_what_is_on_offer(dialect: Dialect) -> None:
    tools = [
        {"name": "f", "input_schema": {}},
        {"type": "web_search_20260209", "name": "web_search"},
        "odd",
        {},
    ]
    view = read(dialect, *MESSAGES, stream=True, tools=tools)
    assert (view.stream, view.model, view.tools) == (True, "m", ("f", "web_search"))
    assert not read(dialect, *MESSAGES).stream


def test_a_thread_is_valid_and_not_supported(dialect: Dialect) -> None:
    view = read(dialect, user(result("a")), thread={"type": "continue", "previous_message_id": "msg_1"})
    assert view.problem == ""
    error = json.loads(view.unsupported)
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert error["error"]["details"]["error_code"] == "thread_unsupported_request"
    assert read(dialect, *MESSAGES).unsupported == b""


USER = {"role": "user", "content": "hello"}
TEXT = {"type": "text", "text": "and"}


def uses(*ids: str | None, input: Any = None, before: Any = ()) -> dict[str, Any]:
    given = {} if input is None else input
    blocks = [{"type": "tool_use", "name": "f", "input": given, **({"id": id} if id else {})} for id in ids]
    return {"role": "assistant", "content": [*before, *blocks]}


def result(id: str | None) -> dict[str, Any]:
    return {"type": "tool_result", "content": "done", **({"tool_use_id": id} if id else {})}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


ANSWER = {"role": "assistant", "content": "a"}
GOOD = {
    "plain": [USER],
    "conversation": [USER, ANSWER, USER],
    "answered": [USER, uses("a"), user(result("a"))],
    "text behind results": [USER, uses("a"), user(result("a"), TEXT)],
    "text ahead of calls": [USER, uses("a", before=[TEXT]), user(result("a"))],
    "any order": [USER, uses("a", "b"), user(result("b"), result("a"))],
    "twice in a row": [USER, uses("a"), user(result("a")), uses("b"), user(result("b"))],
    "same id in another turn": [USER, uses("a"), user(result("a")), uses("a"), user(result("a"))],
    "same id for two calls": [USER, uses("a", "a"), user(result("a"), result("a"))],
    "no ids at all": [USER, uses(None), user(result(None))],
    "neighbours of one role are one": [
        USER,
        USER,
        uses("a", "b"),
        user(result("a")),
        user(result("b")),
        USER,
    ],
    "system in between": [USER, ANSWER, {"role": "system", "content": "be brief"}, USER],
    "empty answer last": [USER, {"role": "assistant", "content": ""}],
    "server tools": [
        USER,
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                TEXT,
            ],
        },
        USER,
    ],
    "unknown fields": [{**USER, "extra": 1}, {**uses("a"), "x": 1}, user({**result("a"), "is_error": True})],
    "images and thinking": [
        user({"type": "image", "source": {}}, TEXT),
        uses("a", before=[{"type": "thinking", "thinking": "…", "signature": "s"}]),
        user(result("a")),
    ],
}
BAD: dict[str, list[Any]] = {
    "messages is not a list of at least one message": [],
    "messages[0] is not an object": ["hello"],
    "messages[0] has role='tool'": [{"role": "tool", "content": "x"}],
    "messages[0] comes first and has role='assistant'": [ANSWER, USER],
    "messages[1] comes first and has role='assistant'": [{"role": "system", "content": "x"}, ANSWER, USER],
    "messages[0] has empty content": [{"role": "user", "content": ""}],
    "messages[1] has empty content": [USER, {"role": "assistant", "content": []}, USER],
    "messages[0] has empty content ": [{"role": "user"}],
    "messages[1].content[0].input is not an object": [USER, uses("a", input="{}"), user(result("a"))],
    "tool_use 'a' has no tool_result after it": [USER, uses("a")],
    "tool_use 'b' has no tool_result in messages[2]": [USER, uses("a", "b"), user(result("a"))],
    "tool_use 'a' has no tool_result in messages[2]": [USER, uses("a"), USER],
    "messages[2] has a tool_result for 'x', which no call directly before it has": [
        *(USER, uses("a")),
        user(result("a"), result("x")),
    ],
    "messages[0] has a tool_result for 'a', which no call directly before it has": [user(result("a"))],
    "messages[4] has a tool_result for 'a', which no call directly before it has": [
        *(USER, uses("a"), user(result("a")), uses("b")),
        user(result("b"), result("a")),
    ],
    "messages[2] has a tool_result for None, which no call directly before it has": [
        *(USER, uses("a")),
        user(result(None)),
    ],
    "messages[2] has one tool_result too many for 'a'": [USER, uses("a"), user(result("a"), result("a"))],
    "messages[2] has other content before a tool_result": [USER, uses("a"), user(TEXT, result("a"))],
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
    view = dialect.read("/messages", body)
    assert (view.problem == "") is (body.get("messages", ()) is not None)
