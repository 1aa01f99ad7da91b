"""Questions to a ledger: strict JSON, runs, completed turns, differences of arguments, waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_agentguard import Ledger, reading
from pytest_agentguard.events import (
    CallOffered,
    ClientClosed,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    Witness,
)

JOB = RunStarted(witness=Witness.RUNNER, final="final-n9", limits={"idle_timeout": 1})
REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1")
END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True)
RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="final-n9")
HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1")
RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="limit")
CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
SCHEMA: dict[str, Any] = {"properties": {"x": {"type": "string"}, "y": {"default": ""}, "z": {}}}


def offer(arguments: str, **more: Any) -> CallOffered:
    return CallOffered(
        witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="f", arguments=arguments, **more
    )


@pytest.mark.parametrize("text", ['{"x": 1}', " {} ", '{"x": {"y": [null, 1e9]}}'])
def test_an_object_is_an_object(text):
    assert isinstance(reading.json_object(text), dict)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "null", "[]", '"x"', "1", '{"x": NaN}', '{"x": -Infinity}', '{"x": 1} and so on', "{'x': 1}",
        '\ufeff{"x": 1}', '{"x": "a', "[" * 100_000, '{"x": ' + "9" * 10_000 + "}",
    ],
    ids=lambda text: text[:12] or "nothing",
)  # fmt: skip
def test_anything_else_is_none(text):
    assert reading.json_object(text) is None


@pytest.mark.parametrize(
    ("offered", "real"),
    [
        ('{"x": "a"}', {"x": "a"}),
        ('{"x": "a"}', {"x": "a", "y": ""}),
        ('{"x": "a"}', {"x": "a", "z": None}),
        ('{"x": "a", "y": ""}', {"x": "a"}),
        ('{"x": 1}', {"x": 1.0}),
        ('{"x": {"a": [1, null]}}', {"x": {"a": (1, None)}}),
        ('{"x": "/srv"}', {"x": "PosixPath('/srv')"}),
        ('{"x": {"a": 1}}', {"x": "Point(a=1)"}),
        ('{"x": "red"}', {"x": "<Color.RED: 'red'>"}),
        ("", {}),
        ("  ", {"y": ""}),
        ("not JSON", {"x": "anything"}),
    ],
)
def test_equal_arguments_are_not_altered(offered, real):
    assert reading.altered(offer(offered), real, SCHEMA) == ""


@pytest.mark.parametrize(
    ("offered", "real", "difference"),
    [
        ('{"x": "a"}', {"x": "b"}, 'x="b" offered="a"'),
        ('{"x": "a"}', {}, 'x absent offered="a"'),
        ('{"x": "a"}', {"x": "a", "y": "b"}, 'y="b" offered=absent'),
        ('{"x": "a"}', {"x": "a", "y": None}, "y=null offered=absent"),
        ('{"x": "a"}', {"x": "a", "w": 1}, "w=1 offered=absent"),
        ('{"x": true}', {"x": 1}, "x=1 offered=true"),
        ('{"x": 0}', {"x": False}, "x=false offered=0"),
        ('{"x": "5"}', {"x": 5}, 'x=5 offered="5"'),
        ('{"x": [1, 2]}', {"x": [1]}, "x=[1] offered=[1, 2]"),
        ('{"x": {"a": 1}}', {"x": {"b": 1}}, 'x={"b": 1} offered={"a": 1}'),
        ("", {"x": "a"}, 'x="a" offered=absent'),
    ],
)
def test_a_difference_is_given_with_both_sides(offered, real, difference):
    assert reading.altered(offer(offered), real, SCHEMA) == difference


def test_without_a_schema_additions_are_not_judged():
    assert reading.altered(offer("{}"), {"y": "b"}, {}) == ""


def test_long_values_are_cut_and_say_how_long_they_were():
    assert reading.brief("x" * 300) == '"' + "x" * 119 + "… (302 characters)"


def test_a_fact_belongs_to_the_run_around_it():
    second = replace(JOB, final="final-n8")
    ledger = Ledger([JOB, REPLY, RETURNED, second, END, replace(RETURNED, how="raised")])
    reply, end = ledger.of(ReplyStarted)[0], ledger.of(StreamEnded)[0]

    assert [reading.run_of(ledger, e).final for e in (reply, end)] == ["final-n9", "final-n8"]
    assert [reading.outcome_of(ledger, e).how for e in (reply, end)] == ["returned", "raised"]


@pytest.mark.parametrize("value", [True, "1", None, [1]])
def test_a_limit_that_is_no_number_is_none(value):
    ledger = Ledger([replace(JOB, limits={"idle_timeout": value}), REPLY])

    assert reading.limit_of(ledger, ledger.of(ReplyStarted)[0], "idle_timeout") is None


@pytest.mark.parametrize("end", ["clean", "cut", "reset", "stalled"])
def test_a_stream_that_ended_without_its_marker_is_broken_off(end):
    assert list(reading.broken_off(Ledger([REPLY, replace(END, complete=False, end=end)])))


@pytest.mark.parametrize(
    ("fault", "fired", "broken"), [("cut", True, True), ("cut", False, False), ("", True, False)]
)
def test_a_stream_that_the_client_left_is_broken_off_only_by_a_fault_that_had_shown(fault, fired, broken):
    left = replace(END, complete=False, end="client-left", fired=fired)

    assert bool(list(reading.broken_off(Ledger([replace(REPLY, fault=fault), left])))) is broken


def test_a_late_end_of_the_spoiled_stream_does_not_hide_the_retry():
    """A stalled response may be released after the retry has been answered."""
    cut = replace(END, complete=False, end="stalled")
    retry, whole = replace(REPLY, stream="s2"), replace(END, stream="s2")
    ledger = Ledger([JOB, REPLY, retry, whole, cut, RETURNED])

    assert reading.false_success(ledger, ledger.of(StreamEnded, stream="s1")[0]) is None


def test_a_whole_stream_before_the_spoiled_one_completes_nothing():
    cut = replace(END, stream="s2", complete=False)
    ledger = Ledger([JOB, REPLY, END, replace(REPLY, stream="s2"), cut, RETURNED])

    assert reading.false_success(ledger, ledger.of(StreamEnded, stream="s2")[0]) is not None


@pytest.mark.parametrize(
    ("body", "told"),
    [('{"id": "call_1"}', True), ('{"x": "n1"}', True), ("{}", False), ('{"id": "call-2"}', False)],
)
def test_a_call_was_told_where_a_later_request_mentions_it(body, told):
    asked = RequestReceived(witness=Witness.ENDPOINT, request="r2", body=body)
    ledger = Ledger([offer('{"x": "n1"}', nonce="n1", call_id="call_1"), asked])

    assert (reading.told(ledger, ledger.of(CallOffered)[0]) is not None) is told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"id": "same"}', (True, True)),
        ('{"id": "same", "x": "n1"}', (True, False)),
        ('{"id": "same", "x": "n1"}, {"id": "same", "x": "n2"}', (True, True)),
    ],
)
def test_an_id_of_two_calls_names_neither_where_only_one_of_them_was_told(body, told):
    first = offer('{"x": "n1"}', nonce="n1", call_id="same")
    second = replace(first, call="s1.c2", arguments='{"x": "n2"}', nonce="n2")
    asked = RequestReceived(witness=Witness.ENDPOINT, request="r2", body=body)
    ledger = Ledger([first, second, asked])

    assert tuple(reading.told(ledger, o) is not None for o in ledger.of(CallOffered)) == told


def test_an_id_that_json_escapes_is_found():
    asked = RequestReceived(witness=Witness.ENDPOINT, request="r2", body='{"id": "call-\\u00e4"}')
    ledger = Ledger([offer("{}", call_id="call-ä"), asked])

    assert reading.told(ledger, ledger.of(CallOffered)[0]) is not None


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([HELD, RELEASED], StreamReleased),
        ([HELD, RELEASED, CLOSED, RETURNED], StreamReleased),
        ([HELD, CLOSED, RELEASED], ClientClosed),
        ([HELD, RETURNED], RunEnded),
        ([HELD, replace(RELEASED, by="test"), RETURNED], type(None)),
        ([HELD, replace(RELEASED, hold="h2")], type(None)),
        ([HELD, CLOSED, replace(RETURNED, how="killed")], type(None)),
        ([HELD, CLOSED, replace(RETURNED, how="cancelled")], type(None)),
        ([HELD, replace(RETURNED, how="killed"), replace(RELEASED, by="run-ended")], type(None)),
        ([HELD], type(None)),
    ],
)
def test_the_order_of_facts_settles_a_wait(events, kind):
    ledger = Ledger([JOB, *events])
    held = ledger.of(StreamHeld)[0]

    assert type(reading.end_of_wait(ledger, held, 1.0, held)) is kind


@pytest.mark.parametrize(("released_at", "settled"), [(10.4, False), (11.0, True), (15.0, True)])
def test_a_response_that_is_let_go_within_the_limit_proves_nothing(released_at, settled):
    ledger = Ledger([JOB, replace(HELD, t=10.0), replace(RELEASED, t=released_at)])
    held = ledger.of(StreamHeld)[0]

    assert (reading.end_of_wait(ledger, held, 1.0, held) is not None) is settled
