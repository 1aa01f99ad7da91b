"""The reference's strict arguments, JSON kept as it came, and results with a bound."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentguard import PURGE, RECORD
from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.errors import BrokenArguments, InvalidArguments
from pytest_agentguard.reference.strict_json import NotJson, depth, parse, parse_loosely, written
from pytest_agentguard.reference.tools import arguments_of, result_text, validate

NO_PARAMETERS = {"type": "object", "properties": {}}
BROKEN = [
    "",
    " ",
    "{",
    '{"x":',
    '{"x": "a"',
    '{"x": "a"} b',
    '{"x": "a"}{"x": "b"}',
    '\ufeff{"x": "a"}',
    "{'x': 'a'}",
    '["a"]',
    '"a"',
    "null",
    "7",
    '{"x": NaN}',
    '{"x": -Infinity}',
    '{"x": 1e999}',
    '{"x": "a", "x": "b"}',
    '{"y": {"x": 1, "x": 1}}',
    '{"x": ' + "[" * 70 + "]" * 70 + "}",
    '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"x": "a\nb"}',
    '{"x": ' + "9" * 5000 + "}",
]


@pytest.mark.parametrize("text", BROKEN, ids=[text[:20] for text in BROKEN])
def test_what_is_not_one_json_object_is_refused(text):
    with pytest.raises(BrokenArguments):
        arguments_of(text, Bounds(), RECORD.parameters)


def test_arguments_longer_than_their_bound_are_refused():
    text = json.dumps({"x": "a" * 100})

    assert arguments_of(text, Bounds(arguments_bytes=len(text)), RECORD.parameters) == {"x": "a" * 100}
    with pytest.raises(BrokenArguments, match=f"limit={len(text) - 1}"):
        arguments_of(text, Bounds(arguments_bytes=len(text) - 1), RECORD.parameters)


def test_no_arguments_are_right_where_there_are_no_parameters():
    assert arguments_of("", Bounds(), NO_PARAMETERS) == {}
    with pytest.raises(BrokenArguments):
        arguments_of("", Bounds(), PURGE.parameters)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "arguments: \"'x' is a required property\""),
        ({"x": 1}, "x: \"1 is not of type 'string'\""),
        ({"x": "a", "z": 1}, "arguments: "),
    ],
)
def test_arguments_against_the_schema_are_refused_by_name(arguments, why):
    with pytest.raises(InvalidArguments) as caught:
        validate(arguments, RECORD.parameters)

    assert str(caught.value).startswith(why)


def test_unknown_members_are_refused_unless_the_schema_allows_them():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}

    validate({"x": "a", "z": 1}, {**schema, "additionalProperties": True})
    with pytest.raises(InvalidArguments, match="unknown members: 'z'"):
        validate({"x": "a", "z": 1}, schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50)
@given(JSON)
def test_json_in_order_comes_back_as_it_was(value):
    text = json.dumps(value)

    assert parse(text) == value
    assert parse(written(parse_loosely(text))) == value


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": [NaN]}', '{"a": {"b": -Infinity}}'])
def test_irregular_json_comes_back_irregular(text):
    assert written(parse_loosely(text)) == text
    with pytest.raises(NotJson):
        parse(text)


def test_depth_counts_objects_and_arrays():
    assert [depth(value) for value in (1, [], {"a": 1}, {"a": [{"b": []}, 1]})] == [0, 1, 1, 4]


def test_a_result_is_cut_at_its_bound_without_tearing_a_character():
    assert result_text("größer", 8) == "größer"
    assert result_text("größer", 3) == "gr\n[cut: 3 of 8 bytes]"
    assert result_text({"a": [1, None]}, 100) == '{"a": [1, null]}'
