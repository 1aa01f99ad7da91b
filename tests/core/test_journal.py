"""Journal lines: every kind of fact there and back, torn lines, values that JSON lacks."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import Claim, Event, ProcessOutput, StreamEnded, ToolStarted, Witness
from pytest_agentguard._core.journal import KINDS, as_dict, decode, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": st.text(st.characters()),
    "str | None": st.none() | st.text(),
    "int": st.integers(0, 10**12),
    "int | None": st.none() | st.integers(0, 255),
    "float": st.floats(0, 1e6),
    "float | None": st.none() | st.floats(0, 1e6),
    "bool": st.booleans(),
    "tuple[str, ...]": st.lists(st.text(), max_size=3).map(tuple),
    "dict[str, Any]": st.dictionaries(st.text(), JSON, max_size=3),
    "dict[str, str]": st.dictionaries(st.text(), st.text(), max_size=3),
    "Witness": st.sampled_from(Witness),
}


def there_and_back(kind: type[Event], fields: dict[str, Any], t: float = 1.5) -> Event:
    line = encode(t, kind, fields)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    ((got_t, got_kind, got),) = decode([line])
    assert (got_t, got_kind) == (t, kind)
    return got_kind(**got)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_kind_of_fact_comes_back_as_it_was(kind: type[Event], data: st.DataObject) -> None:
    fields = {f.name: data.draw(BY_TYPE[str(f.type)]) for f in dataclasses.fields(kind)}
    assert there_and_back(kind, {n: v for n, v in fields.items() if n not in ("seq", "t")}) == kind(**fields)


def test_a_fact_with_defaults_comes_back_with_tuples() -> None:
    event = there_and_back(StreamEnded, {"witness": Witness.ENDPOINT, "stream": "s1", "complete": False})
    assert event == StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)


def start(**arguments: Any) -> dict[str, Any]:
    event = there_and_back(
        ToolStarted, {"witness": Witness.TOOL_SPY, "tool": "record", "arguments": arguments}
    )
    assert isinstance(event, ToolStarted)
    return event.arguments


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b"\xff", "b'\\xff'"),
        ({1}, "{1}"),
        (Path("/srv"), repr(Path("/srv"))),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (CIRCLE, "[[...]]"),
        (Broken(), "<Broken that has no repr>"),
        ([Broken()], ["<Broken that has no repr>"]),
        (DEEP, "<list that has no repr>"),
        (10**5000, "<int that has no repr>"),
        ("\ud800", "\ud800"),
        ({1: "a"}, {"1": "a"}),
    ],
    ids=[
        "bytes",
        "set",
        "path",
        "odd key",
        "circle",
        "no repr",
        "inside",
        "deep",
        "huge",
        "surrogate",
        "int key",
    ],
)
def test_a_value_that_json_lacks_is_written_as_its_repr_beside_the_others(value: Any, written: Any) -> None:
    assert start(x=value, y="kept") == {"x": written, "y": "kept"}


def test_a_field_that_json_lacks_is_written_as_its_repr() -> None:
    event = there_and_back(Claim, {"witness": Witness.AGENT, "what": "odd", "value": CIRCLE})
    assert event == Claim(witness=Witness.AGENT, what="odd", value="[[...]]")


def test_numbers_that_are_none_in_json_survive() -> None:
    got = start(a=math.nan, b=math.inf, c=-math.inf)
    assert math.isnan(got["a"])
    assert (got["b"], got["c"]) == (math.inf, -math.inf)


LINES = [encode(n, ToolStarted, {"witness": Witness.TOOL_SPY, "tool": f"t{n}"}) for n in range(3)]


def test_a_line_torn_by_a_crash_is_left_out_at_every_byte() -> None:
    for size in range(len(LINES[1]) - 1):
        assert [fields["tool"] for _, _, fields in decode([LINES[0], LINES[1][:size]])] == ["t0"]


def test_a_torn_line_in_the_middle_costs_no_other_line() -> None:
    torn = [LINES[0], b"\n", LINES[1][:20] + b"\n", b"\n", LINES[2]]
    assert [fields["tool"] for _, _, fields in decode(torn)] == ["t0", "t2"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"5",
        b"null",
        b"[]",
        b"[1, 2, 3, 4]",
        b'[1, "Nothing", {}]',
        b'[1, ["x"], {}]',
        b'[1, "Claim", 5]',
        b'[1, "Claim", {}]',
        b'[1, "Claim", {"witness": "nobody"}]',
        b'["x", "Claim", {"witness": "runner"}]',
        b'[1, "Claim", [["witness", "runner"]]]',
        b'[1, "ToolStarted", {"witness": "tool-spy", "wings": 2}]',
        b'[1, "ToolStarted", {"witness": "tool-spy", "tool": 5}]',
        b'[1, "ToolStarted", {"witness": "tool-spy", "arguments": "{}"}]',
        b'[1, "RunEnded", {"witness": "runner", "code": "0"}]',
        b'[1, "StreamEnded", {"witness": "endpoint", "begun": "s1.c1"}]',
        b'[1, "StreamEnded", {"witness": "endpoint", "begun": [1]}]',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_fact_is_left_out(line: bytes) -> None:
    assert list(decode([line])) == []


def test_a_line_over_the_bound_is_cut_and_says_so() -> None:
    text = "x" * (limits.JOURNAL_LINE_BYTES + 1)
    event = there_and_back(
        ProcessOutput, {"witness": Witness.RUNNER, "stream": "stdout", "text": text, "total": len(text)}
    )
    assert isinstance(event, ProcessOutput)
    kept = limits.JOURNAL_LINE_BYTES // 8
    assert event.text == "x" * kept + f"… ({len(text)} characters)"
    assert start(x=text, y="kept") == {"x": event.text, "y": "kept"}


def test_a_line_at_the_bound_is_kept_whole() -> None:
    empty = encode(1.5, ToolStarted, {"witness": Witness.TOOL_SPY, "tool": "record", "arguments": {"x": ""}})
    text = "x" * (limits.JOURNAL_LINE_BYTES - len(empty) + 1)
    assert start(x=text) == {"x": text}
    assert start(x=text + "x") != {"x": text + "x"}


def test_reports_have_only_fields_that_say_something() -> None:
    event = ToolStarted(witness=Witness.TOOL_SPY, tool="record", arguments={"x": b"a"}, seq=3, t=0.5)
    assert as_dict(event) == {
        "seq": 3,
        "t": 0.5,
        "witness": "tool-spy",
        "event": "ToolStarted",
        "tool": "record",
        "arguments": {"x": "b'a'"},
    }


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_what_reports_get_is_json(kind: type[Event], data: st.DataObject) -> None:
    event = kind(**{f.name: data.draw(BY_TYPE[str(f.type)]) for f in dataclasses.fields(kind)})
    assert json.loads(json.dumps(as_dict(event))) == as_dict(event)
