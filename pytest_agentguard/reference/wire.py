"""What the two dialects share: their shape, checked access to JSON from outside, errors of a provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.errors import BrokenReply, ProviderError, shown
from pytest_agentguard.reference.sse import ServerSentEvent
from pytest_agentguard.reference.strict_json import NotJson, parse_loosely
from pytest_agentguard.reference.turns import Calls, Result, Turn

T = TypeVar("T")
Messages = list[dict[str, Any]]


class Reader(Protocol):
    """Collects one streamed turn."""

    begun: bool  # anything of the turn has come
    over: bool  # the completion marker has come

    def read(self, event: ServerSentEvent) -> None:
        """Take one event. Raises where it reports an error or breaks the dialect."""

    def turn(self) -> Turn:
        """The turn, once it is complete."""

    def so_far(self) -> Turn:
        """What has come, unchecked: for reports."""


class Dialect(Protocol):
    """One provider's format; ``openai_chat`` and ``anthropic`` are modules of this shape."""

    PATH: str

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry the key and the version."""

    def request(
        self, model: str, messages: Messages, tools: Sequence[Any], stream: bool, max_tokens: int
    ) -> dict[str, Any]:
        """The body of a request."""

    def follow_up(self, turn: Turn, results: Sequence[Result]) -> Messages:
        """What the transcript gains by a turn with calls: the calls, then one result for each."""

    def reader(self, calls: Calls) -> Reader:
        """A reader for one stream."""

    def read_body(self, body: dict[str, Any], calls: Calls) -> Turn:
        """The turn of a response that is not streamed."""


def parsed(text: str, what: str) -> dict[str, Any]:
    """A JSON object from outside."""
    try:
        value = parse_loosely(text)
    except NotJson as error:
        raise BrokenReply(f"{what} is not JSON: {error}; text={shown(text)}") from None
    if not isinstance(value, dict):
        raise BrokenReply(f"{what} is not a JSON object: text={shown(text)}")
    return value


def member(value: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """A member that may be absent or null, but never of another type."""
    found = value.get(name)
    if found is not None and (not isinstance(found, kind) or isinstance(found, bool)):
        raise BrokenReply(f"{name} is no {kind.__name__}: {shown(repr(found))}")
    return found


def needed(value: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A member that must be there."""
    found = member(value, name, kind)
    if found is None:
        raise BrokenReply(f"{name} is missing: {shown(repr(dict(value)))}")
    return found


def objects(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects; absent or null is an empty one."""
    found: list[Any] = member(value, name, list) or []
    if not all(isinstance(entry, dict) for entry in found):
        raise BrokenReply(f"{name} has entries that are no objects: {shown(repr(found))}")
    return found


# -- errors of a provider --------------------------------------------------------------------------------

_BY_WORD: Mapping[str, type[ProviderError]] = {
    "context_length_exceeded": errors.ContextOverflow,
    "model_context_window_exceeded": errors.ContextOverflow,
    "insufficient_quota": errors.QuotaExhausted,
    "credit_balance_exhausted": errors.QuotaExhausted,
    "billing_error": errors.QuotaExhausted,
    "rate_limit_exceeded": errors.RateLimited,
    "rate_limit_error": errors.RateLimited,
    "slow_down": errors.RateLimited,
    "requests": errors.RateLimited,
    "tokens": errors.RateLimited,
    "invalid_api_key": errors.AuthFailed,
    "authentication_error": errors.AuthFailed,
    "permission_error": errors.AuthFailed,
    "overloaded_error": errors.Overloaded,
    "server_is_overloaded": errors.Overloaded,
    "service_unavailable_error": errors.Overloaded,
    "model_not_found": errors.NotFound,
    "not_found_error": errors.NotFound,
    "api_error": errors.ServerFailed,
    "server_error": errors.ServerFailed,
    "timeout_error": errors.ServerFailed,
}
_BY_PHRASE = ("prompt is too long", "maximum context length")  # there is no code for it in these replies
_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: errors.AuthFailed,
    402: errors.QuotaExhausted,
    403: errors.AuthFailed,
    404: errors.NotFound,
    429: errors.RateLimited,
    503: errors.Overloaded,
    529: errors.Overloaded,
}


def error_in(value: Mapping[str, Any]) -> ProviderError | None:
    """The error that a body or event reports, nested under ``error`` or flat; None where it reports none."""
    inner = value.get("error")
    if not inner and value.get("type") != "error" and value.get("object") != "error":
        return None
    return provider_error(
        inner if isinstance(inner, Mapping) else {**value, "message": inner or value.get("message")}
    )


def provider_error(detail: Mapping[str, Any], status: int = 200, came: str = "") -> ProviderError:
    """The error of the right kind: its own words decide, then the status."""
    message = str(detail.get("message") or "")
    kind = next((found for key in ("code", "type") if (found := _BY_WORD.get(str(detail.get(key))))), None)
    if kind is None and any(phrase in message for phrase in _BY_PHRASE):
        kind = errors.ContextOverflow
    kind = kind or _BY_STATUS.get(status) or _by_hundred(status)
    words = [f"{key}={detail[key]}" for key in ("type", "code") if isinstance(detail.get(key), str)]
    told = [f"message={shown(message)}"] if message or not came else [came]
    return kind(" ".join(["the provider reports an error:", f"status={status}", *words, *told]))


def _by_hundred(status: int) -> type[ProviderError]:
    if status < 300:
        return errors.ServerFailed
    return errors.Redirected if status < 400 else errors.BadRequest if status < 500 else errors.ServerFailed
