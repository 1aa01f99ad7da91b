"""The event-stream format at every split, at its limits, and beside an independent decoder."""

from __future__ import annotations

import httpx
import httpx_sse
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_agentguard._core.errors import LimitReached
from pytest_agentguard._core.sse import Decoder, ServerSentEvent, encode_event

HELLO = "data: héllo\u2028 – 𝄞\n\n".encode()


def decoded(*chunks: bytes, limit: int = 1024) -> list[ServerSentEvent]:
    decoder = Decoder(limit=limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def byte_by_byte(stream: bytes) -> list[ServerSentEvent]:
    return decoded(*(stream[n : n + 1] for n in range(len(stream))))


STREAMS = {
    "LF": b"event: a\ndata: 1\n\ndata: 2\ndata: 3\n\n",
    "CRLF": b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\ndata: 3\r\n\r\n",
    "CR": b"event: a\rdata: 1\r\rdata: 2\rdata: 3\r\r",
    "mixed": b"event: a\rdata: 1\n\r\ndata: 2\r\ndata: 3\n\r\n",
    "comments": b": hello\nevent: a\n:\ndata: 1\n\n: ping\n\ndata: 2\n: in between\ndata: 3\n\n",
    "BOM": b"\xef\xbb\xbfevent: a\ndata: 1\n\ndata: 2\ndata: 3\n\n",
    "no space": b"event:a\ndata:1\n\ndata:2\ndata:3\n\n",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_events_are_the_same_at_every_split(stream: bytes) -> None:
    expected = [ServerSentEvent("1", "a"), ServerSentEvent("2\n3")]
    assert decoded(stream) == expected
    assert byte_by_byte(stream) == expected
    for position in range(len(stream) + 1):
        assert decoded(stream[:position], b"", stream[position:]) == expected


def test_characters_survive_a_split_inside_them() -> None:
    for position in range(len(HELLO) + 1):
        assert decoded(HELLO[:position], HELLO[position:]) == [ServerSentEvent("héllo\u2028 – 𝄞")]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c"])
def test_no_other_character_ends_a_line(separator: str) -> None:
    assert [e.data for e in decoded(f"data: a{separator}b\n\n".encode())] == [f"a{separator}b"]


def test_lf_after_a_cr_in_the_next_chunk_belongs_to_the_cr() -> None:
    assert decoded(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [ServerSentEvent("1\n2")]


def test_two_lf_after_a_cr_are_one_line_end_and_one_blank_line() -> None:
    assert byte_by_byte(b"data: 1\r\n\ndata: 2\n\n") == [ServerSentEvent("1"), ServerSentEvent("2")]


def test_invalid_utf8_becomes_the_replacement_character() -> None:
    assert [e.data for e in decoded(b"data: a\xff\xc3b\n\n")] == ["a\ufffd\ufffdb"]
    assert [e.data for e in byte_by_byte(b"data: a\xff\xc3b\n\n")] == ["a\ufffd\ufffdb"]


def test_only_one_bom_is_dropped_and_only_at_the_start() -> None:
    bom = b"\xef\xbb\xbf"
    assert decoded(bom + bom + b"data: 1\n\n") == []
    assert [e.data for e in decoded(b"data: 1\n\n" + bom + b"data: 2\n\ndata: 3\n\n")] == ["1", "3"]


@pytest.mark.parametrize(
    "rest", [b"data: 2", b"data: 2\n", b"data: 2\r", b"data: \xf0\x9d", b"da", b"event: x\n"]
)
def test_an_event_without_its_blank_line_is_discarded(rest: bytes) -> None:
    assert decoded(b"data: 1\n\n" + rest) == [ServerSentEvent("1")]


def test_a_block_without_data_is_no_event() -> None:
    assert decoded(b"event: ping\n\nretry: 3000\n\nid: 7\n\n: comment\n\n\n\n") == []


def test_a_lone_data_line_is_an_event_with_empty_data() -> None:
    assert decoded(b"data\n\ndata:\n\n") == [ServerSentEvent(""), ServerSentEvent("")]


def test_the_event_type_holds_for_one_event_and_an_empty_one_resets_it() -> None:
    stream = b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\nevent:\ndata: 3\n\nevent: c\n\ndata: 4\n\n"
    assert [(e.event, e.data) for e in decoded(stream)] == [
        ("a", "1"),
        ("message", "2"),
        ("message", "3"),
        ("message", "4"),
    ]


def test_the_id_persists_and_one_with_nul_is_ignored() -> None:
    stream = b"id: 1\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n"
    assert [e.id for e in decoded(stream)] == ["1", "1", "1", ""]


def test_retry_takes_ascii_digits_only() -> None:
    stream = "retry: -5\nretry: 3x\nretry: ٣\ndata: a\n\nretry: 3000\ndata: b\n\n".encode()
    assert [e.retry for e in decoded(stream)] == [None, 3000]


def test_exactly_one_space_is_dropped_and_no_tab() -> None:
    assert [e.data for e in decoded(b"data:  a\n\ndata:\tb\n\ndata:c\n\n")] == [" a", "\tb", "c"]


def test_names_are_case_sensitive_and_unknown_ones_are_ignored() -> None:
    assert decoded(b"Data: 1\nfoo: 2\n data: 3\ndata: 4\n\n") == [ServerSentEvent("4")]


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_an_event_at_the_limit_passes_and_one_byte_more_raises(size: int) -> None:
    line = b"data: " + b"x" * 10
    chunks = [(line + b"\n\n")[n : n + size] for n in range(0, len(line) + 2, size)]
    assert decoded(*chunks, limit=len(line)) == [ServerSentEvent("x" * 10)]
    with pytest.raises(LimitReached, match=r"^SSE event longer than limit=15 bytes$"):
        decoded(*chunks, limit=len(line) - 1)


def test_the_limit_counts_all_lines_of_an_event_and_bytes_not_characters() -> None:
    assert len(decoded("data: é\nevent: é\n\n".encode(), limit=17)) == 1
    with pytest.raises(LimitReached):
        decoded("data: é\nevent: é\n\n".encode(), limit=16)


def test_the_limit_starts_anew_with_each_event() -> None:
    assert len(decoded(b"data: 1234\n\n" * 50, limit=10)) == 50


def test_an_endless_line_reaches_the_limit_before_it_ends() -> None:
    decoder = Decoder(limit=100)
    with pytest.raises(LimitReached):
        for _ in range(1000):
            list(decoder.feed(b"x"))


def test_a_dict_is_encoded_as_compact_json_under_its_name() -> None:
    assert encode_event({"a": "é", "b": [1, 2]}, "x") == 'event: x\ndata: {"a":"é","b":[1,2]}\n\n'.encode()


def test_text_with_line_ends_becomes_several_data_lines() -> None:
    assert encode_event("a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"


def test_a_lone_surrogate_is_written_as_its_json_escape() -> None:
    assert encode_event({"a": "\ud800"}) == b'data: {"a":"\\ud800"}\n\n'


NAMES = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=8)
TEXTS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, NAMES), max_size=4), st.data())
def test_what_is_encoded_is_decoded_at_any_split(events: list[tuple[str, str]], data: st.DataObject) -> None:
    stream = b"".join(encode_event(text, name) for text, name in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [(e.data, e.event) for e in decoded(*chunks)] == [
        (text, name or "message") for text, name in events
    ]


LINES = st.sampled_from(
    ["data: x", "data:", "data: é", "event: a", "event:", "", "", "foo: 1", ": c", "retry: 10"]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(st.tuples(LINES, ENDS), max_size=20))
def test_garbage_agrees_with_an_independent_decoder(lines: list[tuple[str, str]]) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    # httpx-sse also hands on blocks without a data line, as events with empty data: they are left out here
    blocks = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
    assume(all(b"data" in block for block in blocks[:-1]))
    response = httpx.Response(200, content=stream, headers={"Content-Type": "text/event-stream"})
    theirs = [(e.data, e.event) for e in httpx_sse.EventSource(response).iter_sse()]
    assert [(e.data, e.event) for e in byte_by_byte(stream)] == theirs
