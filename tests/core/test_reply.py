"""Replies as data: every method gives a new one, and wrong use is told word for word."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_agentguard import BEFORE_FINISH, END, START, End, Reply, UsageError, Where, after_event, at_byte
from pytest_agentguard._core.plan import Hold, Pause
from pytest_agentguard._core.script import KINDS, NONCE, Insert, Split, kind_of

EMPTY = Reply()
CALL = EMPTY.call("record", x="evidence")


def pay(amount: int) -> None:
    """A tool that is handed over as a function."""


class Spied:
    name = "spied"


# -- what the model says ----------------------------------------------------------------------------------


def test_a_method_gives_a_new_reply_and_leaves_the_old_one() -> None:
    assert EMPTY.text("a").text("b").turn.text == "ab"
    assert Reply() == EMPTY


def test_one_text_is_cut_into_words_and_several_are_deltas() -> None:
    assert EMPTY.text("Let me look").turn.parts[0].fragments == ("Let ", "me ", "look")
    assert EMPTY.text("Let me ", "look").turn.parts[0].fragments == ("Let me ", "look")
    assert EMPTY.text("").turn.parts[0].fragments == ("",)
    long = "one two three four five six seven eight nine"
    assert EMPTY.text(long).turn.text == long


@pytest.mark.parametrize(("tool", "name"), [("record", "record"), (pay, "pay"), (Spied(), "spied")])
def test_a_tool_is_a_name_a_spy_or_a_function(tool: object, name: str) -> None:
    assert EMPTY.call(tool).turn.calls[0].tool == name


def test_arguments_become_json_in_three_fragments() -> None:
    (call,) = EMPTY.call("f", x="é", n=[1, None]).turn.calls
    assert call.arguments == '{"x": "é", "n": [1, null]}'
    assert len(call.fragments) == 3


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert EMPTY.call("f").turn.calls[0].arguments == "{}"


def test_no_fragment_ends_inside_a_nonce() -> None:
    for size in range(30):
        (call,) = EMPTY.call("f", x="a" * size + NONCE + NONCE + "b").turn.calls
        assert "".join(call.fragments) == call.arguments
        assert sum(fragment.count(NONCE) for fragment in call.fragments) == 2


def test_raw_arguments_are_kept_as_they_are() -> None:
    assert EMPTY.call("f", raw='{"x": ').turn.calls[0].arguments == '{"x": '
    assert EMPTY.call("f", raw=("{", "", "}")).turn.calls[0].fragments == ("{", "", "}")
    assert EMPTY.call("f", raw="").turn.calls[0].fragments == ("",)


def test_calls_are_counted_and_keep_their_ids() -> None:
    first, second, third = CALL.call("f", id=None).call("g", id="same").turn.calls
    assert [first.key, second.key, third.key] == ["c1", "c2", "c3"]
    assert [first.id, second.id, third.id] == ["", None, "same"]


def test_a_call_makes_the_finish_tool_calls_unless_another_was_said() -> None:
    assert EMPTY.text("a").turn.finish == "stop"
    assert CALL.turn.finish == "tool_calls"
    assert EMPTY.finish("length").call("f").turn.finish == "length"
    assert CALL.finish("stop").turn.finish == "stop"


def test_interleaving_and_usage_are_marks_on_the_turn() -> None:
    turn = CALL.call("f").interleave(1, 3).usage().turn
    assert (turn.interleaved, turn.indices, turn.usage) == (True, (1, 3), True)


# -- how it ends ------------------------------------------------------------------------------------------

ENDINGS: dict[str, tuple[Reply, End, Where | None]] = {
    "cut": (CALL.cut(), End.CLEAN, BEFORE_FINISH),
    "clean-cut": (CALL.cut(7), End.CLEAN, at_byte(7)),
    "protocol-cut": (CALL.protocol_cut(after_event(2)), End.CUT, after_event(2)),
    "reset": (CALL.reset("end"), End.RESET, END),
    "stall": (CALL.stall(START), End.STALLED, START),
    "drip": (CALL.drip(), End.STALLED, BEFORE_FINISH),
    "keep-open": (CALL.keep_open(), End.STALLED, None),
}


@pytest.mark.parametrize(("reply", "end", "where"), ENDINGS.values(), ids=ENDINGS)
def test_an_ending_has_a_kind_and_a_place(reply: Reply, end: End, where: Where | None) -> None:
    assert (reply.end, reply.stop_at) == (end, where)
    assert reply.fault


@pytest.mark.parametrize(
    ("reply", "why", "limit"),
    [
        (CALL.stall(limit=2), "stall", 2),
        (CALL.drip(limit=3), "drip", 3),
        (CALL.keep_open(limit=4), "keep-open", 4),
        (CALL.hold(limit=1), "hold", 1),
    ],
)
def test_whatever_waits_has_a_limit(reply: Reply, why: str, limit: float) -> None:
    ((_, hold),) = reply.moves
    assert isinstance(hold, Hold)
    assert (hold.why, hold.limit) == (why, limit)


def test_a_pause_stands_at_a_byte_or_a_place() -> None:
    reply = EMPTY.pause(1).pause(2, 5).pause(3, END)
    assert reply.moves == ((START, Pause(1)), (at_byte(5), Pause(2)), (END, Pause(3)))


def test_a_cut_inside_a_value_is_a_fragment_boundary_in_it() -> None:
    reply = EMPTY.text("a").call("f", x=1).call("g", y="value").cut(inside="y")
    assert reply.stop_at == Where("piece", part=2)
    assert reply.turn.parts[2].fragments == ('{"y": "val', 'ue"}')


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ('{"x":"value"}', '{"x":"val'),
        ('{"x" : "value"}', '{"x" : "val'),
        ('{"x": ""}', '{"x": "'),
        ('{"x": 1234}', '{"x": 12'),
        ('{"x": "value', '{"x": "va'),
        ('{"é": 0, "x": {"y": [1, 2]}}', '{"é": 0, "x": {"y": ['),
    ],
)
def test_a_cut_inside_takes_raw_arguments_too(raw: str, left: str) -> None:
    assert EMPTY.call("f", raw=raw).cut(inside="x").turn.parts[0].fragments[0] == left


def test_a_second_spoiling_keeps_the_first_name() -> None:
    assert CALL.named("mine", "html").cut().fault == "html"
    assert CALL.cut().named("mine").fault == "cut"


# -- what goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "whats", "stops"),
    [("end", ["error"], True), ("done", ["error", "done"], True), ("rest", ["error"], False)],
)
def test_an_error_event_ends_the_reply_or_not(then: str, whats: list[str], stops: bool) -> None:
    reply = CALL.error("rate-limit", then=then)
    assert [insert.what for insert in reply.inserts] == whats
    assert reply.inserts[0].message == "rate-limit (scripted)"
    assert (reply.stop_at is not None) is stops


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((401, "auth"), (403, "forbidden"), (404, "not-found"), (413, "too-large"), (422, "unprocessable")),
        *((429, "rate-limit"), (500, "server"), (502, "server"), (503, "overloaded"), (529, "overloaded")),
        *((400, "bad-request"), (418, "bad-request")),
    ],
)
def test_a_status_stands_for_a_kind_of_error(status: int, kind: str) -> None:
    assert kind_of(status) == kind
    http = EMPTY.status(status).http
    assert http is not None
    assert (http.kind, http.body) == (kind, None)


def test_a_kind_can_be_named_and_a_wait_asked_for() -> None:
    reply = EMPTY.status(429, "quota", "no more", retry_after=2)
    assert reply.http is not None
    assert (reply.http.kind, reply.http.message) == ("quota", "no more")
    assert reply.headers == (("Retry-After", "2"),)
    assert reply.fault == "status-429"


def test_answers_that_are_no_turn() -> None:
    pages = [EMPTY.html(), EMPTY.html("<p>Hello"), EMPTY.challenge()]
    assert all(page.http and page.http.content_type.startswith("text/html") for page in pages)
    assert pages[1].http is not None
    assert pages[1].http.body == b"<p>Hello"
    moved = EMPTY.redirect("http://127.0.0.1:1/x", 308)
    assert moved.headers == (("Location", "http://127.0.0.1:1/x"),)
    raw = EMPTY.body(b"\xff", content_type="x/y", status=202).http
    assert raw is not None
    assert (raw.status, raw.content_type, raw.body) == (202, "x/y", b"\xff")


def test_keep_alives_are_counted_inserts() -> None:
    assert EMPTY.keep_alive(3, count=2).inserts == (Insert(at_byte(3), "keep-alive", count=2),)


def test_splits_and_framing() -> None:
    assert EMPTY.split(each=3, at=(1,), by="utf-8").chunks == Split(3, (1,), "utf-8")
    assert EMPTY.framed("close").framing == "close"
    assert EMPTY.newlines("\r").newline == "\r"


def test_matching_is_data() -> None:
    reply = CALL.optional().times(3).on("anthropic", matches=bool).named("label")
    assert (reply.is_optional, reply.count, reply.dialect, reply.label) == (True, 3, "anthropic", "label")
    assert reply.matches is bool


# -- wrong use, word for word -----------------------------------------------------------------------------

WRONG: dict[str, Callable[[], object]] = {
    "Reply.text() takes one or more strings": lambda: EMPTY.text(),
    "Reply.call() takes a tool spy or a tool's name, not 5": lambda: EMPTY.call(5),
    "Reply.call() takes a tool spy or a tool's name, not ''": lambda: EMPTY.call(""),
    "Reply.call() takes either raw= or arguments, not both": lambda: EMPTY.call("f", raw="{}", x=1),
    "Reply.call() takes arguments that JSON can hold: Object of type PosixPath is not JSON serializable": (
        lambda: EMPTY.call("f", path=Path("/srv"))
    ),
    "unknown finish reason 'lenght'; did you mean 'length'?": lambda: EMPTY.finish("lenght"),
    "no call of this reply has an argument named 'z'": lambda: CALL.cut(inside="z"),
    "Reply.error(then=…) takes end, done or rest, not 'stop'": lambda: EMPTY.error(then="stop"),
    "Reply.flood() takes event, keep-alive or text, not 'pings'": lambda: EMPTY.flood("pings", 1),
    "Reply.flood() takes a size from 1, not 0": lambda: EMPTY.flood("text", 0),
    "Reply.split(by=…) takes event, utf-8 or newline, not 'line'": lambda: EMPTY.split(by="line"),
    "Reply.split() takes a size from 0, not -1": lambda: EMPTY.split(each=-1),
    "Reply.newlines() takes LF, CRLF or CR": lambda: EMPTY.newlines("\n\r"),
    "Reply.framed() takes chunked, length or close, not 'none'": lambda: EMPTY.framed("none"),
    "Reply.times() takes a count from 1, not 0": lambda: EMPTY.times(0),
    "Reply.stall(limit=…) is a time from 0 to 86400 s, not inf": lambda: EMPTY.stall(limit=math.inf),
    "Reply.hold(limit=…) is a time from 0 to 86400 s, not 10000000": lambda: EMPTY.hold(limit=10_000_000),
    "Reply.keep_open(limit=…) is a time from 0 to 86400 s, not nan": lambda: EMPTY.keep_open(limit=math.nan),
    "Reply.drip(limit=…) is a time from 0 to 86400 s, not -1": lambda: EMPTY.drip(limit=-1),
    "Reply.drip(every=…) is a time from 0 to 86400 s, not nan": lambda: EMPTY.drip(every=math.nan),
    "Reply.pause(…) is a time from 0 to 86400 s, not '1'": lambda: EMPTY.pause("1"),  # type: ignore[arg-type]
    "at_byte() takes a position from 0, not -1": lambda: EMPTY.cut(-1),
}


@pytest.mark.parametrize(("message", "use"), WRONG.items(), ids=map(str, range(len(WRONG))))
def test_wrong_use_raises_at_once_and_names_the_method(message: str, use: Callable[[], object]) -> None:
    with pytest.raises(UsageError) as raised:
        use()
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "make",
    [
        lambda: Reply().error("overlod"),
        lambda: Reply().json_error("overlod"),
        lambda: Reply().status(503, "overlod"),
    ],
)
def test_kind_of_error_that_does_not_exist_is_wrong_use(make: Callable[[], Reply]) -> None:
    with pytest.raises(UsageError) as raised:
        make()
    assert str(raised.value) == "unknown kind of error 'overlod'; did you mean 'overloaded'?"


def test_a_kind_of_fault_that_no_rule_knows_is_a_usage_error() -> None:
    assert Reply().named("a gateway", "status-503").fault == "status-503"
    with pytest.raises(UsageError, match=r"unknown kind of fault 'htm'; did you mean 'html'\?"):
        Reply().named("a page", "htm")
    with pytest.raises(UsageError, match="unknown kind of fault 'status-5000'"):
        Reply().named("a page", "status-5000")


def test_every_method_that_spoils_a_reply_gives_a_kind_of_the_list() -> None:
    spoiled = [
        CALL.cut(), CALL.protocol_cut(), CALL.reset(), CALL.stall(), CALL.drip(), CALL.keep_open(),
        CALL.finish("missing"), CALL.error(), CALL.status(503), CALL.redirect("http://127.0.0.1/"),
        CALL.json_error(), CALL.html(), CALL.challenge(), CALL.body(b"x"), CALL.typed("text/plain"),
        CALL.nothing(), CALL.only_done(), CALL.flood("event", 1), CALL.flood("keep-alive", 1),
        CALL.flood("text", 1),
    ]  # fmt: skip

    assert {reply.fault.replace("503", "NNN") for reply in spoiled} == set(KINDS)
