"""The Anthropic Messages dialect: requests, transcript, and turns read strictly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agentguard.reference.errors import BrokenReply, shown
from pytest_agentguard.reference.sse import ServerSentEvent
from pytest_agentguard.reference.strict_json import NotJson, parse, written
from pytest_agentguard.reference.turns import Call, Calls, Finish, Result, Turn
from pytest_agentguard.reference.wire import (
    Messages,
    error_in,
    member,
    needed,
    objects,
    parsed,
    provider_error,
)

PATH = "/v1/messages"

_FINISH: Mapping[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSED,
}


def headers(api_key: str) -> dict[str, str]:
    """The headers that carry the key and the version."""
    return {"x-api-key": api_key, "anthropic-version": "2023-06-01"}


def request(
    model: str, messages: Messages, tools: Sequence[Any], stream: bool, max_tokens: int
) -> dict[str, Any]:
    """The body of a request."""
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": messages, "stream": stream}
    if tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in tools
        ]
    return body


def follow_up(turn: Turn, results: Sequence[Result]) -> Messages:
    """The assistant's blocks, then one user message that starts with a result for every call."""
    said: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text.strip() else []
    said += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)} for call in turn.calls
    ]
    told = [
        {"type": "tool_result", "tool_use_id": r.call.id, "content": r.text, "is_error": r.failed}
        for r in results
    ]
    return [{"role": "assistant", "content": said}, {"role": "user", "content": told}]


def _input(call: Call) -> dict[str, Any]:
    """The arguments as an object. Where they are none, an empty one: the result says what was wrong."""
    try:
        value = parse(call.arguments)
    except NotJson:
        return {}
    return value if isinstance(value, dict) else {}


def read_body(body: dict[str, Any], calls: Calls) -> Turn:
    """The turn of a response that is not streamed."""
    if error := error_in(body):
        raise error
    if body.get("type") != "message":
        raise BrokenReply(f"not a message: {shown(repr(body))}")
    blocks = _Blocks(calls)
    for index, block in enumerate(objects(body, "content")):
        blocks.start(index, {"input": None, **block})  # nothing follows that could still bring it
        blocks.stop(index)
    blocks.reason = member(body, "stop_reason", str)
    return blocks.turn()


def reader(calls: Calls) -> Reader:
    """A reader for one stream."""
    return Reader(calls)


class _Blocks:
    """The content blocks of a turn, each under its index."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._text: list[str] = []
        self._open: dict[int, str] = {}  # index to type
        self._closed: set[int] = set()
        self._streamed: dict[int, bool] = {}  # calls: whether pieces of their input came
        self._given: dict[int, str] = {}  # calls: input that came with the start
        self.reason: str | None = None

    def start(self, index: int, block: dict[str, Any]) -> None:
        """A block begins; what it brings along counts."""
        if index in self._open or index in self._closed:
            raise BrokenReply(f"a block began twice: index={index}")
        kind = needed(block, "type", str)
        self._open[index] = kind
        if kind == "text":
            self._text.append(member(block, "text", str) or "")
        elif kind == "tool_use":
            self._calls.begin(index, member(block, "id", str), member(block, "name", str))
            self._given[index] = written(block["input"]) if "input" in block else ""
        else:
            raise BrokenReply(f"a block that was not asked for: type={shown(kind)}")

    def delta(self, index: int, delta: dict[str, Any]) -> None:
        """The next piece of an open block."""
        kind, expected = delta.get("type"), self._open.get(index)
        if kind == "text_delta" and expected == "text":
            self._text.append(needed(delta, "text", str))
        elif kind == "input_json_delta" and expected == "tool_use":
            piece = needed(delta, "partial_json", str)
            self._streamed[index] = self._streamed.get(index, False) or bool(piece)
            self._calls.add(index, piece)
        elif kind != "citations_delta":
            raise BrokenReply(
                f"a delta that does not fit its block: index={index} block={expected} delta={kind}"
            )

    def stop(self, index: int) -> None:
        """A block is whole."""
        if self._open.pop(index, None) is None:
            raise BrokenReply(f"a block ended that was not open: index={index}")
        self._closed.add(index)
        given = self._given.get(index, "")
        if index in self._given and not self._streamed.get(index):
            self._calls.add(index, given or "{}")
        elif given not in ("", "{}"):
            raise BrokenReply(f"a call has its input twice: index={index}")

    def turn(self) -> Turn:
        """The turn, its calls checked."""
        if self._open:
            raise BrokenReply(f"blocks without an end: indices={sorted(self._open)}")
        turn = self._as_turn(self._calls.whole())
        if turn.calls and turn.finish is Finish.STOP:
            raise BrokenReply(f"tool calls in a turn that does not ask for them: stop_reason={self.reason}")
        return turn

    def so_far(self) -> Turn:
        """What has come, unchecked."""
        return self._as_turn(self._calls.so_far())

    def _as_turn(self, calls: tuple[Call, ...]) -> Turn:
        finish = None if self.reason is None else _FINISH.get(self.reason, Finish.UNKNOWN)
        return Turn("".join(self._text), calls, finish, self.reason or "")


class Reader(_Blocks):
    """Collects a turn from the events of a stream; the marker is ``message_stop``."""

    begun = False
    over = False

    def read(self, event: ServerSentEvent) -> None:
        """Take one event. Types that are not known are ignored, as the documentation asks."""
        if not event.data or event.name == "ping":
            return
        value = parsed(event.data, "an event")
        kind = needed(value, "type", str)
        if event.name == "error" or kind == "error":
            raise error_in(value) or provider_error(value)
        if kind == "ping":
            return
        if kind == "message_stop":
            self.over = True
            return
        if kind != "message_start" and not self.begun:
            raise BrokenReply(f"the stream does not start with message_start: type={shown(kind)}")
        self._take(kind, value)
        self.begun = True

    def _take(self, kind: str, value: dict[str, Any]) -> None:
        match kind:
            case "message_start" if self.begun:
                raise BrokenReply("a second message_start")
            case "content_block_start":
                self.start(needed(value, "index", int), needed(value, "content_block", dict))
            case "content_block_delta":
                self.delta(needed(value, "index", int), needed(value, "delta", dict))
            case "content_block_stop":
                self.stop(needed(value, "index", int))
            case "message_delta":
                self.reason = member(needed(value, "delta", dict), "stop_reason", str) or self.reason
