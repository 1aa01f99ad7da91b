"""Plans: the bytes, positions and moves of every kind of reply, in both dialects and both modes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from pytest_agentguard import (
    AFTER_FINISH,
    BEFORE_FINISH,
    END,
    START,
    Decoder,
    Reply,
    UsageError,
    after_event,
    at_byte,
)
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import End as Ends
from pytest_agentguard._core.plan import Hold, Note, Pause, Plan, Repeat, Send
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._core.script import Insert
from pytest_agentguard.catalogue import dialect
from pytest_agentguard.events import CallOffered, ErrorSent, ReplyStarted, StreamCompleted, Witness

DIALECTS = ("openai-chat", "anthropic")
TALK = Reply().text("Let me ", "lóok").call("record", x="{nonce}-evidence")
CALL_ALONE = Reply().call("f", raw=('{"x": 1', "}"))
TWO = Reply().call("f", a="{nonce}").call("g", b="{nonce}")


class Case:
    """One dialect and mode."""

    def __init__(self, dialect: str, mode: str) -> None:
        self.dialect = dialect
        self.mode = mode
        self.streams = mode == "stream"

    def plan(self, reply: Reply, seed: str = "0", **setting: Any) -> Plan:
        return plan(reply, Setting(dialect(self.dialect), self.mode, CountedIds(seed), **setting))


@pytest.fixture(params=[(d, m) for d in DIALECTS for m in ("stream", "block")], ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(*request.param)


@pytest.fixture(params=DIALECTS)
def streamed(request: pytest.FixtureRequest) -> Case:
    return Case(request.param, "stream")


def sent(made: Plan) -> bytes:
    return b"".join(step.data for step in made.steps() if isinstance(step, Send))


def told(made: Plan) -> list[tuple[int, Note]]:
    """Every recorded note with the number of bytes that had left before it."""
    count, found = 0, []
    for step in made.steps():
        if isinstance(step, Send):
            count += len(step.data)
        elif isinstance(step, Note):
            found.append((count, step))
    return found


def kinds(made: Plan) -> list[type]:
    return [note.kind for _, note in told(made)]


def mark(made: Plan, what: str) -> int:
    return next(m.at for m in made.marks if m.what == what)


ENDINGS = {
    "healthy": (TALK, Ends.CLEAN),
    "cut": (TALK.cut(), Ends.CLEAN),
    "close": (TALK.cut(framing="close"), Ends.CLEAN),
    "protocol cut": (TALK.protocol_cut(), Ends.CUT),
    "reset": (TALK.reset(), Ends.RESET),
    "stall": (TALK.stall(), Ends.STALLED),
    "drip": (TALK.drip(), Ends.STALLED),
    "kept open": (TALK.keep_open(), Ends.STALLED),
}
REPLIES = {
    **{name: reply for name, (reply, _) in ENDINGS.items()},
    "inside": TALK.cut(inside="x"),
    "byte 0": TALK.cut(0),
    "byte 1": TALK.reset(1),
    "event 2": TALK.stall(after_event(2)),
    "after finish": TALK.cut(AFTER_FINISH),
    "end": TALK.cut(END),
    "hold": TALK.hold(),
    "pauses": TALK.pause(0.1, 20).pause(0.1, BEFORE_FINISH).pause(0.1, 5),
    "error": TALK.error(),
    "error, done": TALK.error(then="done"),
    "error, rest": TALK.error(at=after_event(1), then="rest"),
    "keep-alives": TALK.keep_alive(count=2).keep_alive(BEFORE_FINISH).keep_alive(END),
    "nothing": TALK.nothing(),
    "only done": TALK.only_done(),
    "BOM": Reply(bom=True, turn=TALK.turn),
    "CRLF": TALK.newlines("\r\n"),
    "CR": TALK.newlines("\r").keep_alive(),
    "each byte": TALK.split(each=1),
    "offsets": TALK.split(at=(3, 5, 100_000)),
    "events": TALK.split(by="event").keep_alive(after_event(1)),
    "utf-8": TALK.split(by="utf-8"),
    "line ends": TALK.newlines("\r\n").split(by="newline"),
    "flood": TALK.flood("text", 100_000),
    "two calls": TWO,
    "interleaved": TWO.interleave(),
    "usage": TALK.usage(),
    "status": TALK.status(503),
    "page": TALK.html(),
    "JSON error": TALK.json_error().cut(10),
    "bytes": TALK.body(b"x" * 10).stall(5),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_everything_sent_is_the_body_up_to_its_stop(case: Case, reply: Reply) -> None:
    made = case.plan(reply)
    assert sent(made) == made.body[: made.last]
    assert all(step.data for step in made.steps() if isinstance(step, Send))


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_what_is_delivered_only_grows_with_what_is_sent(case: Case, reply: Reply) -> None:
    made = case.plan(reply)
    places = {m.at + n for m in made.marks for n in (-1, 0, 1)} | {0, made.last, len(made.body) + 1}
    assert_growing(made, sorted(places))
    assert made.delivered(made.last).fired


def test_what_is_delivered_grows_at_every_byte(case: Case) -> None:
    made = case.plan(TALK.cut(inside="x"))
    assert_growing(made, range(len(made.body) + 1))


def assert_growing(made: Plan, places: Sequence[int]) -> None:
    for earlier, later in pairwise(map(made.delivered, places)):
        assert earlier.complete <= later.complete
        assert earlier.fired <= later.fired
        assert later.text.startswith(earlier.text)
        assert set(earlier.begun) <= set(later.begun)
        assert set(earlier.whole) <= set(later.whole)
        left = dict(zip(later.begun, later.arguments, strict=True))
        assert all(left[k].startswith(a) for k, a in zip(earlier.begun, earlier.arguments, strict=True))


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_nonce_moves_nothing(case: Case, reply: Reply) -> None:
    one, other = case.plan(reply, "1"), case.plan(reply, "2")
    assert len(one.body) == len(other.body)
    assert (one.marks, one.stop, one.chunks) == (other.marks, other.stop, other.chunks)
    assert [(p, type(move)) for p, move in one.moves] == [(p, type(move)) for p, move in other.moves]
    assert (one.complete_at, one.fault_at) == (other.complete_at, other.fault_at)


@pytest.mark.parametrize(("reply", "end"), ENDINGS.values(), ids=ENDINGS)
def test_a_plan_ends_as_the_reply_says(case: Case, reply: Reply, end: Ends) -> None:
    made = case.plan(reply)
    assert made.end is end
    assert made.delivered(made.last).complete is (reply.stop_at is None)
    assert made.framing == ("close" if reply.framing else "chunked" if case.streams else "length")


def test_a_cut_stops_before_the_first_byte_of_the_finish_event(case: Case) -> None:
    made = case.plan(TALK.cut())
    assert made.last == mark(made, "finish-starts")
    delivered = made.delivered(made.last)
    assert delivered.text == "Let me lóok"
    assert delivered.whole == ("s1.c1",)
    assert not delivered.complete


def test_a_cut_inside_a_value_keeps_its_nonce_and_tears_the_value(case: Case) -> None:
    made = case.plan(TALK.cut(inside="x"))
    (offer,) = (note for _, note in told(made) if note.kind is CallOffered)
    (left,) = made.delivered(made.last).arguments
    assert offer.fields["nonce"] in left
    assert left == '{"x": "' + offer.fields["nonce"] + "-"
    assert made.delivered(made.last).whole == ()


def test_a_cut_inside_a_value_that_is_a_nonce_leaves_the_quote_open(case: Case) -> None:
    made = case.plan(Reply().call("f", x="{nonce}").cut(inside="x"))
    (offer,) = (note for _, note in told(made) if note.kind is CallOffered)
    assert made.delivered(made.last).arguments == ('{"x": "' + offer.fields["nonce"],)


def test_a_drip_sends_the_keep_alive_of_the_dialect(case: Case) -> None:
    (hold,) = (step for step in case.plan(TALK.drip(every=0.2)).steps() if isinstance(step, Hold))
    assert hold.drip == (dialect(case.dialect).keep_alive if case.streams else b" ")
    assert (hold.every, hold.why) == (0.2, "drip")


def test_moves_come_in_the_order_of_their_positions(case: Case) -> None:
    made = case.plan(TALK.pause(3, BEFORE_FINISH).hold().pause(1, 5).pause(2, 5))
    moves = [step for step in made.steps() if isinstance(step, Hold | Pause)]
    assert [getattr(move, "seconds", "hold") for move in moves] == ["hold", 1, 2, 3]


def test_a_hold_at_the_start_comes_before_any_byte_and_after_the_start_is_told(case: Case) -> None:
    first, second, third = list(case.plan(TALK.hold()).steps())[:3]
    assert isinstance(first, Note)
    assert first.kind is ReplyStarted
    assert isinstance(second, Hold)
    assert not isinstance(third, Hold)


def test_a_call_is_offered_before_its_first_byte_leaves(case: Case) -> None:
    made = case.plan(TALK.split(each=1))
    (count,) = (count for count, note in told(made) if note.kind is CallOffered)
    assert count == mark(made, "begun")


@pytest.mark.parametrize("short", [0, 1])
def test_a_call_is_offered_only_if_a_byte_of_it_leaves(case: Case, short: int) -> None:
    begun = mark(case.plan(TALK), "begun")
    made = case.plan(TALK.cut(begun + short))
    assert (CallOffered in kinds(made)) is bool(short)
    assert made.delivered(made.last).begun == (("s1.c1",) if short else ())


def test_permission_is_told_before_its_last_byte_leaves_and_not_earlier(case: Case) -> None:
    made = case.plan(TALK.split(each=1))
    (count,) = (count for count, note in told(made) if note.kind is StreamCompleted)
    assert made.complete_at is not None
    assert count == made.complete_at - 1


@pytest.mark.parametrize("short", [0, 1])
def test_permission_is_told_only_if_the_finish_leaves_whole(case: Case, short: int) -> None:
    whole = case.plan(TALK).complete_at
    assert whole is not None
    made = case.plan(TALK.cut(whole - short))
    assert (StreamCompleted in kinds(made)) is not bool(short)
    assert made.delivered(made.last).complete is not bool(short)


def test_strict_completion_is_the_marker(streamed: Case) -> None:
    lenient, strict = streamed.plan(TALK), streamed.plan(TALK, strict=True)
    assert lenient.complete_at == mark(lenient, "finish")
    assert strict.complete_at == mark(strict, "marker") == len(strict.body)
    left = streamed.plan(TALK.cut(AFTER_FINISH), strict=True).delivered(10**6)
    assert (left.complete, left.finished) == (False, True)
    assert not streamed.plan(TALK.cut(BEFORE_FINISH)).delivered(10**6).finished


def test_facts_name_stream_request_lane_and_witness(case: Case) -> None:
    made = case.plan(TALK, stream="s7", request="r3", lane="left")
    for _, note in told(made):
        assert (note.fields["stream"], note.fields["lane"]) == ("s7", "left")
        assert note.fields["witness"] is Witness.ENDPOINT
        note.kind(**note.fields)
    started = told(made)[0][1].fields
    assert (started["request"], started["dialect"], started["mode"]) == ("r3", case.dialect, case.mode)


def test_an_offer_has_the_arguments_the_nonce_and_the_id_of_the_wire(case: Case) -> None:
    made = case.plan(TALK, tools=("record",))
    (offer,) = (note.fields for _, note in told(made) if note.kind is CallOffered)
    assert json.loads(offer["arguments"]) == {"x": offer["nonce"] + "-evidence"}
    assert offer["nonce"] in made.body.decode()
    assert offer["call_id"] in made.body.decode()
    assert offer["call_id"].startswith({"openai-chat": "call_", "anthropic": "toolu_"}[case.dialect])
    assert (offer["call"], offer["known"], offer["problem"]) == ("s1.c1", True, "")


def test_a_tool_that_the_request_did_not_offer_is_said_to_be_unknown(case: Case) -> None:
    (offer,) = (n.fields for _, n in told(case.plan(TALK, tools=("other",))) if n.kind is CallOffered)
    assert offer["known"] is False


def test_a_call_without_an_id_is_offered_without_one(case: Case) -> None:
    made = case.plan(Reply().call("f", id=None))
    (offer,) = (n.fields for _, n in told(made) if n.kind is CallOffered)
    assert offer["call_id"] is None
    assert b'"call_' not in made.body
    assert b'"toolu_' not in made.body


def test_every_call_has_a_nonce_of_its_own_and_every_reply_new_ids(case: Case) -> None:
    ids = CountedIds("0")
    setting = Setting(dialect(case.dialect), case.mode, ids)
    offers = [n.fields for _ in range(2) for _, n in told(plan(TWO, setting)) if n.kind is CallOffered]
    assert len({offer["nonce"] for offer in offers}) == 4
    assert len({offer["call_id"] for offer in offers}) == 4


def test_an_error_is_told_before_its_first_byte_leaves(case: Case) -> None:
    made = case.plan(TALK.keep_alive().error(then="done").split(each=1))
    ((count, note),) = ((count, note) for count, note in told(made) if note.kind is ErrorSent)
    event = dialect(case.dialect).error_event("overloaded", "overloaded (scripted)")
    body = dialect(case.dialect).error_body(200, "overloaded", "overloaded (scripted)")
    assert made.body[count:].startswith(event if case.streams else body)
    assert note.fields["where"] == ("event" if case.streams else "body")
    assert StreamCompleted not in kinds(made)


def test_an_error_at_the_start_is_told_at_the_start(case: Case) -> None:
    made = case.plan(Reply(bom=True).text("a").error(at=START, then="rest").split(each=1))
    ((count, _),) = ((count, note) for count, note in told(made) if note.kind is ErrorSent)
    assert count == len(b"\xef\xbb\xbf")


def test_an_error_between_text_and_call_leaves_the_call_unoffered(streamed: Case) -> None:
    begun = mark(streamed.plan(TALK), "begun")
    before = sum(1 for m in streamed.plan(TALK).marks if m.what == "event" and m.at <= begun)
    made = streamed.plan(TALK.error(at=after_event(before)))
    assert CallOffered not in kinds(made)
    assert made.delivered(made.last).begun == ()
    assert made.fault_at == made.last


def test_an_error_with_the_rest_of_the_reply_withdraws_its_permission(case: Case) -> None:
    made = case.plan(TALK.error(at=after_event(1), then="rest"))
    (completed,) = (n.fields for _, n in told(made) if n.kind is StreamCompleted)
    assert completed["permits"] is False


def test_bytes_inserted_after_the_finish_do_not_delay_completion(streamed: Case) -> None:
    plain, made = streamed.plan(TALK), streamed.plan(TALK.keep_alive(AFTER_FINISH))
    assert made.complete_at == plain.complete_at
    assert made.body[made.complete_at :].startswith(dialect(streamed.dialect).keep_alive)


FINISHES = {"stop": (True, False), "tool_calls": (True, True)}


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "length", "filter", "refusal", "unknown"])
def test_permission_follows_the_finish_reason(case: Case, finish: str) -> None:
    (completed,) = (n.fields for _, n in told(case.plan(TALK.finish(finish))) if n.kind is StreamCompleted)
    expected = FINISHES.get(finish, (False, False))[DIALECTS.index(case.dialect)]
    assert completed["permits"] is expected


@pytest.mark.parametrize("strict", [False, True])
def test_a_turn_without_a_finish_reason_is_never_complete(case: Case, strict: bool) -> None:
    made = case.plan(TALK.finish("missing"), strict=strict)
    size = len(made.body)
    finish = next(mark.at for mark in made.marks if mark.what == "finish")

    assert not made.delivered(size).complete
    assert (made.delivered(finish - 1).fired, made.delivered(finish).fired) == (False, True)
    assert all(n.kind is not StreamCompleted for _, n in told(made))


def test_events_split_gives_every_event_and_every_insert_a_chunk(streamed: Case) -> None:
    made = streamed.plan(TALK.keep_alive(after_event(1)).split(by="event"))
    chunks = [step.data for step in made.steps() if isinstance(step, Send)]
    assert all(chunk.endswith(b"\n\n") and chunk.count(b"\n\n") == 1 for chunk in chunks)
    assert dialect(streamed.dialect).keep_alive in chunks


def test_utf8_split_cuts_every_character_of_several_bytes(case: Case) -> None:
    made = case.plan(Reply().text("aé𝄞").split(by="utf-8"))
    chunks = [step.data for step in made.steps() if isinstance(step, Send)]
    assert len(chunks) == 1 + 1 + 3


def test_newline_split_cuts_between_cr_and_lf(streamed: Case) -> None:
    made = streamed.plan(Reply().text("a").newlines("\r\n").split(by="newline"))
    chunks = [step.data for step in made.steps() if isinstance(step, Send)]
    assert b"\r" in chunks
    assert b"\n" in chunks
    assert not any(len(chunk) > 1 and chunk.strip() != chunk for chunk in chunks)


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_other_line_ends_change_no_event(streamed: Case, newline: str) -> None:
    plain = list(Decoder().feed(streamed.plan(TALK).body))
    assert list(Decoder().feed(streamed.plan(TALK.newlines(newline)).body)) == plain


def test_a_bom_comes_first(case: Case) -> None:
    made = case.plan(Reply(bom=True).text("a").keep_alive())
    assert made.body.startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("what", ["event", "keep-alive", "text"])
def test_a_flood_repeats_at_its_place_and_never_completes(case: Case, what: str) -> None:
    made = case.plan(TALK.flood(what, 1_000_000))
    *before, flood = (step for step in made.steps() if not isinstance(step, Note))
    assert isinstance(flood, Repeat)
    assert flood.size == 1_000_000
    assert all(isinstance(step, Send) for step in before)
    assert not made.delivered(made.last + flood.size).complete
    assert made.delivered(made.last + flood.size).fired
    if not case.streams:
        assert set(flood.data) == {ord("x")}
    elif what == "event":
        assert sent(made).endswith(b'data: {"endless":"')
        assert b"\n" not in flood.data
    else:
        assert list(Decoder().feed(sent(made) + flood.data))  # whole events, from the first byte on


def test_a_flood_of_text_never_repeats_a_call(streamed: Case) -> None:
    made = streamed.plan(Reply().call("f", a="1").text("a", "b").flood("text", 1000))
    (flood,) = (step for step in made.steps() if isinstance(step, Repeat))
    assert b"tool" not in flood.data
    assert b"input_json" not in flood.data


def test_a_status_has_the_errors_body_and_never_completes(case: Case) -> None:
    made = case.plan(TALK.status(503, retry_after=1))
    assert (made.status, made.framing, made.complete_at) == (503, "length", None)
    assert made.body == dialect(case.dialect).error_body(503, "overloaded", "overloaded (scripted)")
    assert ("Retry-After", "1") in made.headers
    assert kinds(made) == [ReplyStarted, ErrorSent]
    assert told(made)[1][1].fields["where"] == "status"


def test_an_error_with_status_200_is_in_the_body(case: Case) -> None:
    made = case.plan(Reply().json_error("rate-limit"))
    assert (made.status, told(made)[1][1].fields["where"]) == (200, "body")


@pytest.mark.parametrize(
    ("reply", "told_kinds"),
    [
        (Reply().html(), [ReplyStarted, ErrorSent]),
        (Reply().challenge(), [ReplyStarted, ErrorSent]),
        (Reply().redirect("http://127.0.0.1:1/"), [ReplyStarted]),
        (Reply().body(b"{}"), [ReplyStarted]),
    ],
    ids=["page", "challenge", "redirect", "bytes"],
)
def test_an_answer_that_is_no_turn_is_told_as_what_it_is(
    case: Case, reply: Reply, told_kinds: list[type]
) -> None:
    made = case.plan(reply)
    assert kinds(made) == told_kinds
    assert made.complete_at is None


def test_headers_have_the_content_type_and_the_dialects_own(case: Case) -> None:
    names = dict(case.plan(TALK.header("x-a", "b")).headers)
    assert names["Content-Type"] == ("text/event-stream" if case.streams else "application/json")
    assert names["x-a"] == "b"
    assert {"x-request-id", "request-id"} & set(names)
    assert dict(case.plan(TALK.typed("text/plain")).headers)["Content-Type"] == "text/plain"


def test_only_done_sends_the_marker_and_nothing_else(case: Case) -> None:
    assert sent(case.plan(TALK.only_done())) == (dialect(case.dialect).done if case.streams else b"")


def test_nothing_sends_not_one_byte_and_offers_nothing(case: Case) -> None:
    made = case.plan(TALK.nothing())
    assert sent(made) == b""
    assert kinds(made) == [ReplyStarted]


def test_a_healthy_reply_has_no_fault_and_a_spoiled_one_shows_it_at_its_last_byte(case: Case) -> None:
    assert case.plan(TALK).fault_at is None
    made = case.plan(TALK.cut())
    assert not made.delivered(made.last - 1).fired
    assert made.delivered(made.last).fired


def test_keeping_the_connection_open_has_fired_when_everything_left(case: Case) -> None:
    made = case.plan(TALK.named("open", "drip").keep_open())
    assert made.fault_at == len(made.body)


def test_positions_beyond_the_end_are_the_end(case: Case) -> None:
    size = len(case.plan(TALK).body)
    assert case.plan(TALK.cut(10**9)).stop == size
    assert case.plan(TALK.cut(after_event(10**9))).stop == size
    assert case.plan(TALK.cut(after_event(-1))).stop == 0


@pytest.mark.parametrize("where", ["piece", "nowhere"])
def test_a_position_that_does_not_exist_is_wrong_use(case: Case, where: str) -> None:
    message = {"piece": "the reply has no fragment 0 of part 0", "nowhere": "unknown position 'nowhere'"}
    with pytest.raises(UsageError, match=f"^{message[where]}$"):
        case.plan(Reply().cut(where))


def _pieces(made: Plan) -> Iterator[tuple[int, tuple[int, int]]]:
    return ((m.at, m.piece) for m in made.marks if m.piece is not None)


def test_interleaved_calls_alternate_in_a_stream(streamed: Case) -> None:
    made = streamed.plan(Reply().call("f", raw=("1", "2")).call("g", raw=("3", "4")).interleave())
    assert [piece for _, piece in _pieces(made)] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_every_fragment_of_the_turn_has_its_place_in_the_bytes(case: Case) -> None:
    made = case.plan(TALK)
    assert sorted(piece for _, piece in _pieces(made)) == sorted(TALK.turn.pieces())
    assert [at for at, _ in _pieces(made)] == sorted(at for at, _ in _pieces(made))


def test_raw_bytes_go_in_at_any_byte_of_the_turn(case: Case) -> None:
    plain = case.plan(TALK)
    made = case.plan(replace(TALK, inserts=(Insert(at_byte(7), "raw", data=b"<?>"),)))
    assert made.body == plain.body[:7] + b"<?>" + plain.body[7:]
    assert made.fault_at == 10


def test_a_flood_in_a_body_of_calls_alone_is_inside_their_arguments() -> None:
    made = Case("openai-chat", "block").plan(CALL_ALONE.flood("text", 100))
    assert sent(made).endswith(b'"arguments":"' + b'{\\"x\\": 1')
    (flood,) = (step for step in made.steps() if isinstance(step, Repeat))
    assert set(flood.data) == {ord("x")}


def test_a_flood_in_a_stream_without_text_is_of_comments_ahead_of_the_finish(streamed: Case) -> None:
    made = streamed.plan(CALL_ALONE.flood("text", 100))
    (flood,) = (step for step in made.steps() if isinstance(step, Repeat))
    assert made.last == mark(made, "finish-starts")
    assert all(line.startswith(b": ") for line in flood.data.split(b"\n\n")[:-1])
    assert list(Decoder().feed(flood.data)) == []


def test_a_flood_of_keep_alives_moves_no_mark(case: Case) -> None:
    made = case.plan(CALL_ALONE.flood("keep-alive", 10))
    assert made.marks == case.plan(CALL_ALONE).marks


def test_a_plan_holds_every_fragment_once(case: Case) -> None:
    words = ["word "] * 2_000
    made = case.plan(Reply().text("{nonce}", *words).call("f", raw=('{"x": "', *words, '"}')))
    delivered = made.delivered(len(made.body))
    assert sum(len(fragment) for *_, fragment in made.spoken) == len(delivered.text) + len(
        delivered.arguments[0]
    )
    assert delivered.text[len("{nonce}") :] == "".join(words)
    assert json.loads(delivered.arguments[0]) == {"x": "".join(words)}


def test_many_inserts_shift_every_position_behind_them(streamed: Case) -> None:
    reply = TALK
    for n in range(1, 4):
        reply = reply.keep_alive(after_event(n), count=n)
    made, plain = streamed.plan(reply), streamed.plan(TALK)
    inserted = len(made.body) - len(plain.body)
    assert mark(made, "finish") == mark(plain, "finish") + inserted
    assert made.complete_at == (plain.complete_at or 0) + inserted
    assert made.delivered(made.last).text == plain.delivered(plain.last).text
