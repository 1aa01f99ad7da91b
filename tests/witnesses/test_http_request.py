"""Requests that are read without h11 are read as h11 reads them, at any split."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import ProtocolError
from pytest_agentguard._witnesses.h11_request import H11Reader
from pytest_agentguard._witnesses.http_request import HttpRequest, RequestReader, plain_head

PLAIN = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
NAMES = (
    "Host", "host", "Content-Length", "Content-Type", "Connection", "Transfer-Encoding", "Expect", "Upgrade",
    "X-A", "x_b", "Cookie", "Content-Length ", " X", "",
)  # fmt: skip
VALUES = (
    "a", "0", "2", "2, 2", "00", "+2", "-1", "2" * 21, "99999999999", "chunked", "100-continue", "close",
    "keep-alive, close", "websocket", "a b", "a  b", "", " a", "a ", "a\tb", "\x7f", "ü", "a\x00b", "a\nb",
    "a\rb", "a: b", "²",
)  # fmt: skip
LINES = (
    "POST /v1/chat/completions HTTP/1.1", "GET / HTTP/1.1", "GET /a?b=%20 HTTP/1.1", "GET / HTTP/1.0",
    "HEAD / HTTP/1.1", "CONNECT a:1 HTTP/1.1", "get / HTTP/1.1", "GET  / HTTP/1.1", "GET / HTTP/1.1 ",
    "GET /ü HTTP/1.1", "GET / HTTP/2.0", "GET /\t HTTP/1.1", "POST * HTTP/1.1", "", "\x16\x03\x01",
)  # fmt: skip
ENDS = ("\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n ")


@st.composite
def wires(draw: st.DrawFn) -> bytes:
    """Bytes that are, or nearly are, up to three requests."""
    made = ""
    for _ in range(draw(st.integers(1, 3))):
        lines = [draw(st.sampled_from(LINES[:3]) | st.sampled_from(LINES))]
        fields = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=4))
        fields += draw(st.sampled_from(([("Host", "h")], [("Host", "h"), ("Content-Length", "2")], [])))
        lines += [f"{name}{draw(st.sampled_from((': ', ': ', ':', ':  ')))}{value}" for name, value in fields]
        made += "".join(line + draw(st.sampled_from(ENDS)) for line in lines) + draw(st.sampled_from(ENDS))
        made += draw(st.sampled_from(("", "{}", "{}", "12345", "2\r\n{}\r\n0\r\n\r\n")))
    return made.encode("latin-1")


@given(wires(), st.lists(st.integers(0, 400), max_size=4))
@example(PLAIN * 2, [])
@example(PLAIN.replace(b"Host: a\r\n", b""), [])
@example(PLAIN.replace(b"2\r\n", b"2\r\nContent-Length: 2\r\n"), [])
@example(PLAIN.replace(b"2\r\n", b"2\r\nContent-Length: 3\r\n"), [len(PLAIN)])
@example(PLAIN.replace(b"Host: a", b"Host: a\r\nHost: b"), [])
@example(PLAIN.replace(b"Host: a", b"Host: a\n\nX: b"), [])
def test_every_reader_says_what_h11_says(wire: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    pieces = [wire[begin:end] for begin, end in pairwise(places)]
    assert list(ours(pieces)) == list(of_h11(pieces))


def test_a_reader_that_was_asked_too_early_reads_a_plain_head_itself() -> None:
    reader = RequestReader()
    assert reader.next() is None
    reader.feed(PLAIN)
    assert reader.next() is not None
    assert reader._h11 is None


@pytest.mark.parametrize("cut", range(1, len(PLAIN)))
def test_plain_request_may_come_in_two_pieces(cut: int) -> None:
    reader = RequestReader()
    reader.feed(PLAIN[:cut])
    assert reader.next() is None
    reader.feed(PLAIN[cut:])
    request = reader.next()
    assert request is not None
    assert (request.body, request.size, request.header("host")) == (b"{}", 2, "a")


@pytest.mark.parametrize(
    "change",
    [
        (b"Host: a\r\n", b""),
        (b"Host: a", b"Host: a\r\nHost: a"),
        (b"Host: a", b"Host:a"),
        (b"Host: a", b"Host: a\r\nExpect: 100-continue"),
        (b"Host: a", b"Host: a\r\nUpgrade: websocket"),
        (b"Content-Length: 2", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 2", b"Content-Length: 2, 2"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"POST", b"HEAD"),
        (b"Host: a", b"Host: a\r\n b"),
        (b"{}", b""),
        (b"2\r\n", b"%d\r\n" % (limits.BODY_BYTES + 1)),
    ],
    ids=lambda change: str(change[1]),
)
def test_only_a_plain_head_is_read_without_h11(change: tuple[bytes, bytes]) -> None:
    assert plain_head(PLAIN) is not None
    changed = PLAIN.replace(*change)
    assert (plain_head(changed) is None) == (change[0] != b"{}")


def ours(pieces: list[bytes]) -> Iterator[HttpRequest | str]:
    """What the reader says, request after request: the requests, then the reason why one is none."""
    reader = RequestReader()
    for piece in pieces:
        reader.feed(piece)
        try:
            while (request := reader.next()) is not None:
                yield request
                reader = reader.following()
            if reader.wants_continue():
                yield "100"
        except ProtocolError as error:
            yield str(error)
            return


def of_h11(pieces: list[bytes]) -> Iterator[HttpRequest | str]:
    """What h11 alone says."""
    reader = H11Reader()
    for piece in pieces:
        reader.feed(piece)
        try:
            while (request := reader.next()) is not None:
                yield request
                rest, reader = reader.rest, H11Reader()
                if not rest:
                    break
                reader.feed(rest)
            if reader.wants_continue():
                yield "100"
        except ProtocolError as error:
            yield str(error)
            return
