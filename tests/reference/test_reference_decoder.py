"""The reference's event decoder: any split, any line end, one bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentguard.reference.errors import BrokenReply, ReplyTooLarge
from pytest_agentguard.reference.sse import Decoder, ServerSentEvent

STREAM = (
    "event: first\ndata: größer\u2028\x0b\x85als 漢字\n\n"
    ": ping\n\ndata:a\ndata: b\nid: 7\n\ndata\n\nevent: x\n\n"
).encode()
EVENTS = [
    ServerSentEvent("first", "größer\u2028\x0b\x85als 漢字"),
    ServerSentEvent("", "a\nb"),
    ServerSentEvent("", ""),
]


def decoded(*chunks, limit=1000):
    decoder = Decoder(limit=limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_the_events_are_the_same_at_every_split(newline, bom):
    data = bom + STREAM.replace(b"\n", newline)

    assert decoded(data) == EVENTS
    assert decoded(*(data[n : n + 1] for n in range(len(data)))) == EVENTS
    assert [n for n in range(len(data) + 1) if decoded(data[:n], b"", data[n:]) != EVENTS] == []


def test_line_ends_may_be_mixed():
    assert decoded(b"data: a\r", b"\ndata: b\r\rdata: c\n\r\n") == [
        ServerSentEvent("", "a\nb"),
        ServerSentEvent("", "c"),
    ]


def test_what_no_blank_line_has_closed_is_no_event():
    assert decoded(b"data: a\n") == []
    assert decoded(b"data: a\r\n") == []


def test_an_event_may_be_as_long_as_the_limit_and_no_longer():
    line = b"data: " + b"x" * 94

    assert len(decoded(line + b"\n\n" + line, b"\n\n", limit=100)) == 2
    with pytest.raises(ReplyTooLarge, match="limit=99 bytes"):
        decoded(line + b"\n\n", limit=99)
    with pytest.raises(ReplyTooLarge, match="limit=99 bytes"):
        decoded(*(line[n : n + 1] for n in range(100)), limit=99)


def test_invalid_utf_8_is_refused():
    with pytest.raises(BrokenReply, match="not UTF-8"):
        decoded(b"data: \xff\n\n")


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=200), st.integers(1, 7))
def test_garbage_is_decoded_or_refused_in_the_same_way_at_any_split(data, size):
    assert _outcome(data) == _outcome(*(data[n : n + size] for n in range(0, len(data), size)))


def _outcome(*chunks):
    try:
        return decoded(*chunks)
    except BrokenReply as error:
        return str(error)
