"""The OpenAI Chat Completions dialect: requests, transcript, and turns read strictly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agentguard.reference.errors import BrokenReply, shown
from pytest_agentguard.reference.sse import ServerSentEvent
from pytest_agentguard.reference.turns import Calls, Finish, Result, Turn
from pytest_agentguard.reference.wire import (
    Messages,
    error_in,
    member,
    needed,
    objects,
    parsed,
    provider_error,
)

PATH = "/chat/completions"

_FINISH: Mapping[str, Finish] = {
    "stop": Finish.STOP,  # also with calls, where tool_choice names one function
    "tool_calls": Finish.CALLS,
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSED,
}


def headers(api_key: str) -> dict[str, str]:
    """The header that carries the key."""
    return {"Authorization": f"Bearer {api_key}"}


def request(
    model: str, messages: Messages, tools: Sequence[Any], stream: bool, max_tokens: int
) -> dict[str, Any]:
    """The body of a request; ``max_tokens`` is left to the provider here."""
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": stream}
    if tools:
        body["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
    return body


def follow_up(turn: Turn, results: Sequence[Result]) -> Messages:
    """The assistant's message with its calls as they came, then one tool message per call."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in turn.calls
    ]
    said: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "tool_calls": calls}
    return [said, *({"role": "tool", "tool_call_id": r.call.id, "content": r.text} for r in results)]


def read_body(body: dict[str, Any], calls: Calls) -> Turn:
    """The turn of a response that is not streamed."""
    whole = _Whole(calls)
    whole.chunk(body, "message")
    return whole.turn()


def reader(calls: Calls) -> Reader:
    """A reader for one stream."""
    return Reader(calls)


def _function(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


class _Whole:
    """Collects a turn from the single choice that was asked for, in one piece or in many."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reason: str | None = None

    def chunk(self, value: dict[str, Any], key: str) -> None:
        """Take a body (``message``) or one chunk of a stream (``delta``)."""
        if error := error_in(value):
            raise error
        if member(value, "choices", list) is None:
            raise BrokenReply(f"no choices: {shown(repr(value))}")
        for choice in objects(value, "choices"):
            if choice.get("index", 0) != 0:
                raise BrokenReply(f"a choice that was not asked for: index={choice['index']!r}")
            self._message(member(choice, key, dict) or {})
            self._finished(member(choice, "finish_reason", str))

    def turn(self) -> Turn:
        """The turn, its calls checked."""
        return self._as_turn(self._calls.whole())

    def so_far(self) -> Turn:
        """What has come, unchecked."""
        return self._as_turn(self._calls.so_far())

    def _as_turn(self, calls: tuple[Any, ...]) -> Turn:
        finish = None if self._reason is None else _FINISH.get(self._reason, Finish.UNKNOWN)
        refusal = "".join(self._refusal)
        if refusal and finish in (Finish.STOP, Finish.CALLS):
            finish = Finish.REFUSED
        return Turn("".join(self._text) or refusal, calls, finish, self._reason or "")

    def _message(self, message: dict[str, Any]) -> None:
        self._text.append(member(message, "content", str) or "")
        self._refusal.append(member(message, "refusal", str) or "")
        if message.get("function_call"):
            raise BrokenReply("a function_call of the old kind, which has no id")
        for n, call in enumerate(objects(message, "tool_calls")):
            self._call(call, n)

    def _call(self, call: dict[str, Any], n: int) -> None:
        if call.get("type") not in (None, "function"):
            raise BrokenReply(f"a call of a type that was not offered: type={shown(repr(call['type']))}")
        index = self._index(call, n)
        function = member(call, "function", dict) or {}
        self._calls.begin(index, member(call, "id", str), member(function, "name", str))
        self._calls.add(index, member(function, "arguments", str) or "")

    def _index(self, call: dict[str, Any], n: int) -> int:
        return n

    def _finished(self, reason: str | None) -> None:
        if reason is not None and self._reason not in (None, reason):
            raise BrokenReply(f"two finish reasons: {self._reason} and {shown(reason)}")
        self._reason = reason if reason is not None else self._reason


class Reader(_Whole):
    """Collects a turn from the events of a stream; the marker is ``[DONE]``."""

    begun = False
    over = False

    def read(self, event: ServerSentEvent) -> None:
        """Take one event."""
        if event.data.strip() == "[DONE]":
            self.over = True
        elif event.data:
            value = parsed(event.data, "an event")
            if event.name == "error":
                raise error_in(value) or provider_error(value)
            self.chunk(value, "delta")
            self.begun = True

    def _index(self, call: dict[str, Any], n: int) -> int:
        return needed(call, "index", int)  # pieces of several calls may alternate
