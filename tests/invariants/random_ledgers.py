"""Random ledgers: the examples of the rules, in which events are lost, doubled, moved, changed or made up."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from hypothesis import strategies as st

from pytest_agentguard import catalogue, events
from pytest_agentguard.events import Event, Witness

KINDS = [
    kind
    for kind in (getattr(events, name) for name in events.__all__)
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
]

EXAMPLES = [
    list(ledger)
    for rule in catalogue.invariants().values()
    for ledger in (*rule.holds, *rule.breaks, *rule.silent, *rule.idle)
    if len(ledger)
]

_TEXTS = st.sampled_from(
    ["", "n1", "n2", "final-n9", "the answer is final-n9", '{"x": "n1"}', "größer", "{", "null"]
)
_NONCES = st.sampled_from(["", "n1", "n2"])
_CALLS = ("s1.c1", "s1.c2", "s2.c1")
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2),
    max_leaves=4,
)
_SCHEMAS = st.fixed_dictionaries(
    {}, optional={"properties": st.dictionaries(st.sampled_from(["x", "y"]), _VALUES, max_size=2)}
)
_LIMITS = (
    "idle_timeout",
    "request_timeout",
    "deadline",
    "attempts",
    "rounds",
    "tool_calls",
    "context_tokens",
)
_NAMED: dict[str, Any] = {
    "lane": st.sampled_from(["", "", "", "a", "b", "n", "8n", "stream", "block"]),
    "stream": st.sampled_from(["s1", "s2"]),
    "request": st.sampled_from(["r1", "r2"]),
    "call": st.sampled_from(_CALLS),
    "begun": st.lists(st.sampled_from(_CALLS), max_size=3).map(tuple),
    "whole": st.lists(st.sampled_from(_CALLS), max_size=3).map(tuple),
    "tool": st.sampled_from(["pay", "record"]),
    "tools": st.dictionaries(st.sampled_from(["pay", "record"]), _SCHEMAS | _VALUES, max_size=2),
    "limits": st.dictionaries(st.sampled_from(_LIMITS), st.floats(0, 5) | st.integers(0, 5), max_size=3),
    "nonce": _NONCES,
    "final": st.sampled_from(["", "final-n9"]),
    "invocation": st.sampled_from(["", "i1", "i2"]),
    "hold": st.sampled_from(["h1", "h2"]),
    "why": st.sampled_from(["stall", "drip", "hold", "keep-open"]),
    "by": st.sampled_from(["test", "run-ended", "limit", "client-closed"]),
    "end": st.sampled_from(["clean", "cut", "reset", "stalled", "client-left"]),
    "how": st.sampled_from(
        ["returned", "returned", "raised", "limited", "failed", "cancelled", "exited", "signalled", "killed"]
    ),
    "finish": st.sampled_from(["", "stop", "tool_calls", "length", "filter", "refusal", "unknown"]),
    "fault": st.sampled_from(
        ["", "", "cut", "stall", "error-event", "nothing", "only-done", "html", "json-error", "content-type"]
    ),
    "problem": st.sampled_from(["", "", "broken", "invalid", "extra"]),
    "kind": st.sampled_from(
        ["turn", "turn", "other", "overloaded", "auth", "context", "rate-limit", "socket"]
    ),
    "where": st.sampled_from(["status", "body", "event"]),
    "status": st.sampled_from([200, 200, 503]),
    "dialect": st.sampled_from(["", "openai-chat", "gemini"]),
    "call_id": st.sampled_from([None, "", "n1", "call_1"]),
    "error_chain": st.lists(st.sampled_from(["MemoryError", "openai.RateLimitError"]), max_size=2).map(tuple),
    "turn": st.integers(0, 3),
}


def _by_type(name: str) -> Any:
    match name:
        case "str":
            return _TEXTS
        case "str | None":
            return st.none() | _TEXTS
        case "int":
            return st.integers(0, 2**31)
        case "int | None":
            return st.none() | st.integers(0, 255)
        case "float":
            return st.floats(0, 10)
        case "float | None":
            return st.none() | st.floats(0, 10)
        case "bool":
            return st.booleans()
        case "tuple[str, ...]":
            return st.lists(_TEXTS, max_size=2).map(tuple)
        case "dict[str, str]" | "dict[str, Any]":
            return st.dictionaries(st.sampled_from(["x", "y", "command"]), _VALUES, max_size=2)
    raise NotImplementedError(f"no values for a field of type {name}")


@cache
def event(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Any event of ``kind``, ``t`` included."""
    return st.builds(kind, witness=st.sampled_from(list(Witness)), **_fields(kind))


@cache
def _fields(kind: type[Event]) -> dict[str, Any]:
    fields = {
        entry.name: _NAMED[entry.name] if entry.name in _NAMED else _by_type(str(entry.type))
        for entry in dataclasses.fields(kind)
        if entry.name not in ("seq", "witness", "headers")
    }
    if kind is events.ToolStarted:  # the ledger joins them
        del fields["stream"], fields["call"]
    return fields


@st.composite
def random_events(draw: Any) -> list[Event]:
    """An example of a rule, or two, in which events were lost, doubled, moved, changed or made up."""
    parts = draw(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=2))
    found = [one for part in parts for one in part]
    for change in draw(
        st.lists(st.sampled_from(["lose", "double", "move", "change", "make up"]), max_size=5)
    ):
        place = draw(st.integers(0, len(found)))
        if change == "make up":
            found.insert(place, draw(st.sampled_from(KINDS).flatmap(event)))
        elif place < len(found):
            one = found.pop(place)
            found[place:place] = {"lose": [], "double": [one, one]}.get(change, [one])
            if change == "move":
                found.insert(draw(st.integers(0, len(found))), found.pop(place))
            elif change == "change":
                name = draw(st.sampled_from(sorted(_fields(type(one)))))
                found[place] = dataclasses.replace(one, **{name: draw(_fields(type(one))[name])})
    return found
