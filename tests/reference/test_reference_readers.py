"""The reference's readers of both dialects, fed event by event: what they take, and what they refuse."""

from __future__ import annotations

import json

import pytest

from pytest_agentguard.reference import anthropic, errors, openai_chat
from pytest_agentguard.reference.sse import ServerSentEvent
from pytest_agentguard.reference.turns import Call, Calls, Finish, Turn


def chat(*deltas, finish="tool_calls"):
    reader = openai_chat.reader(Calls())
    for delta in deltas:
        reader.read(event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
    reader.read(event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    reader.read(event({"choices": [], "usage": {"total_tokens": 3}}))
    reader.read(ServerSentEvent("", "[DONE]"))
    assert reader.over
    return reader.turn()


def piece(index, arguments="", **more):
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}, **more}]}


def begin(index, id, name="f", arguments=""):
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}


def messages(*events, reason="tool_use"):
    reader = anthropic.reader(Calls())
    reader.read(event({"type": "message_start", "message": {"content": []}}))
    for value in events:
        reader.read(event(value))
    reader.read(event({"type": "message_delta", "delta": {"stop_reason": reason}}))
    reader.read(event({"type": "message_stop"}))
    assert reader.over
    return reader.turn()


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def use(index, id="toolu_a", name="f", **more):
    return start(index, type="tool_use", id=id, name=name, **more)


def delta(index, text):
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": "input_json_delta", "partial_json": text},
    }


def stop(index):
    return {"type": "content_block_stop", "index": index}


def event(value, name=""):
    return ServerSentEvent(name, json.dumps(value))


def test_chat_pieces_go_to_their_index_and_ids_may_be_repeated():
    turn = chat(
        begin(3, "call_a"),
        begin(1, "call_b", "g"),
        piece(3, '{"a":'),
        piece(1, '{"b":', id="call_b"),
        piece(3, "1}", id="call_a"),
        piece(1, "2}"),
    )

    assert turn.calls == (Call("call_a", "f", '{"a":1}'), Call("call_b", "g", '{"b":2}'))


def test_chat_finish_stop_with_calls_and_a_refusal():
    assert chat(begin(0, "a"), finish="stop").finish is Finish.STOP
    assert chat({"refusal": "I will not."}, finish="stop") == Turn("I will not.", (), Finish.REFUSED, "stop")


@pytest.mark.parametrize(
    ("deltas", "why"),
    [
        ([begin(0, "a"), begin(0, "b")], "the id of a call changed"),
        ([begin(0, "a"), begin(0, "a", "g")], "the name of a call changed"),
        ([begin(0, "a"), begin(1, "a")], "two calls of one turn have the same id"),
        ([begin(0, None)], "a call came without an id"),
        ([begin(0, "")], "a call came without an id"),
        ([begin(0, "a", "")], "no usable tool name"),
        ([begin(0, "a", "rm -rf")], "no usable tool name"),
        ([piece(0, "{}")], "a call came without an id"),
        ([begin(None, "a")], "index is missing"),
        ([begin("0", "a")], "index is no int"),
        ([begin(True, "a")], "index is no int"),
        ([{"tool_calls": [{"index": 0, "type": "custom"}]}], "a type that was not offered"),
        ([{"function_call": {"name": "f", "arguments": "{}"}}], "function_call of the old kind"),
        ([{"content": 7}], "content is no str"),
        ([{"tool_calls": {}}], "tool_calls is no list"),
        ([{"tool_calls": [None]}], "entries that are no objects"),
    ],
)
def test_chat_refuses_what_cannot_be_told_apart(deltas, why):
    with pytest.raises(errors.BrokenReply, match=why):
        chat(*deltas)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"error": {"message": "m", "type": "server_error"}}, errors.ServerFailed),
        ({"error": {"message": "m", "code": "rate_limit_exceeded"}, "choices": []}, errors.RateLimited),
        ({"error": "overloaded"}, errors.ServerFailed),
        ({"type": "error", "message": "m"}, errors.ServerFailed),
        ({"object": "error", "message": "prompt is too long", "code": 400}, errors.ContextOverflow),
        ({"status": "ok"}, errors.BrokenReply),
        ({"choices": [{"index": 1, "delta": {"content": "x"}}]}, errors.BrokenReply),
    ],
)
def test_chat_takes_no_error_for_a_chunk(value, error):
    with pytest.raises(error):
        openai_chat.reader(Calls()).read(event(value))


def test_chat_takes_a_null_error_and_an_event_without_data():
    reader = openai_chat.reader(Calls())
    reader.read(event({"error": None, "choices": []}))
    reader.read(ServerSentEvent("", ""))

    with pytest.raises(errors.BrokenReply, match="two finish reasons"):
        for reason in ("stop", "length"):
            reader.read(event({"choices": [{"index": 0, "finish_reason": reason}]}))
    with pytest.raises(errors.BrokenReply, match="not JSON"):
        reader.read(ServerSentEvent("", "[done]"))


def test_messages_blocks_may_overlap_and_unknown_events_are_ignored():
    turn = messages(
        start(0, type="text", text="Let me "),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
        {"type": "something_new"},
        use(1, input={}),
        use(2, "toolu_b", "g", input={}),
        delta(1, '{"a":'),
        delta(2, '{"b":'),
        stop(0),
        delta(1, "1}"),
        delta(2, "2}"),
        stop(2),
        stop(1),
    )

    assert turn.text == "Let me look."
    assert turn.calls == (Call("toolu_a", "f", '{"a":1}'), Call("toolu_b", "g", '{"b":2}'))


@pytest.mark.parametrize(
    ("events", "arguments"),
    [
        ([use(0, input={}), stop(0)], "{}"),
        ([use(0), delta(0, ""), stop(0)], "{}"),
        ([use(0, input={"a": 1}), stop(0)], '{"a": 1}'),
        ([use(0, input=None), stop(0)], "null"),
    ],
)
def test_messages_input_may_come_with_the_start(events, arguments):
    assert messages(*events).calls == (Call("toolu_a", "f", arguments),)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([use(0), use(0, "toolu_b"), stop(0)], "a block began twice"),
        ([use(0), stop(0), stop(0)], "a block ended that was not open"),
        ([use(0)], "blocks without an end"),
        ([delta(0, "{}")], "a delta that does not fit its block"),
        ([start(0, type="text", text=""), delta(0, "{}"), stop(0)], "a delta that does not fit its block"),
        ([use(0), stop(0), delta(0, "{}")], "a delta that does not fit its block"),
        ([use(0, input={"a": 1}), delta(0, "{}"), stop(0)], "a call has its input twice"),
        ([start(0, type="server_tool_use", id="x", name="f"), stop(0)], "a block that was not asked for"),
        ([use(0, ""), stop(0)], "a call came without an id"),
        ([use(0), stop(0), use(1), stop(1)], "two calls of one turn have the same id"),
        ([{"type": "message_start", "message": {}}], "a second message_start"),
    ],
)
def test_messages_refuses_what_cannot_be_told_apart(events, why):
    with pytest.raises(errors.BrokenReply, match=why):
        messages(*events)


def test_messages_calls_need_their_own_stop_reason():
    with pytest.raises(errors.BrokenReply, match="stop_reason=end_turn"):
        messages(use(0), stop(0), reason="end_turn")


def test_messages_starts_with_its_start():
    with pytest.raises(errors.BrokenReply, match="does not start with message_start"):
        anthropic.reader(Calls()).read(event(stop(0)))


@pytest.mark.parametrize("name", ["", "error"])
def test_messages_error_is_one_with_or_without_its_name(name):
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}

    with pytest.raises(errors.Overloaded, match="type=overloaded_error message='busy'"):
        anthropic.reader(Calls()).read(event(body, name))


def test_broken_arguments_stay_out_of_a_messages_transcript():
    turn = Turn("", (Call("toolu_a", "f", '{"a":'), Call("toolu_b", "f", '{"a": 1}')), Finish.CALLS)

    said, _ = anthropic.follow_up(turn, ())

    assert [block["input"] for block in said["content"]] == [{}, {"a": 1}]
