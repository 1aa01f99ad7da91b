"""HTTP itself: keep-alive, pipelining, old clients, hostile clients, bounds."""

from __future__ import annotations

import json
import socket
import struct

import pytest
from endpoint_kit import LIMIT, TURN, Client, ask, request, serving

from pytest_agentguard import Reply
from pytest_agentguard._core import limits
from pytest_agentguard._witnesses.http_request import RequestReader
from pytest_agentguard._witnesses.outbox import Outbox
from pytest_agentguard.events import (
    CeilingReached,
    RequestReceived,
    RequestUnmatched,
    StreamEnded,
    WitnessFailed,
)

OK = Reply().text("a ", "b")


def test_requests_on_one_connection_are_answered_in_order() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(*[Reply().text(f"answer {n}") for n in range(5)])
        client.send(request() * 5)
        bodies = [client.answer().body for _ in range(5)]
    assert [f"answer {n}".encode().split()[1] in body for n, body in enumerate(bodies)] == [True] * 5


def test_pipelined_request_waits_for_a_held_answer() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        held = endpoint.play(OK.hold(limit=60))
        endpoint.play(Reply().text("second"))
        client.send(request() * 2)
        assert held.received.wait(LIMIT)
        endpoint.settle()
        assert len(ledger.of(RequestReceived)) == 1
        held.release()
        assert b"a " in client.answer().body
        assert b"second" in client.answer().body


def test_what_a_client_sends_ahead_is_bounded() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        held = endpoint.play(OK.hold(limit=60))
        client.post()
        assert held.received.wait(LIMIT)
        client.socket.setblocking(False)
        sent = 0
        piece = b"x" * 65536
        while sent < 64 * limits.PIPELINE_BYTES:
            try:
                sent += client.socket.send(piece)
            except BlockingIOError:
                endpoint.settle()
                try:
                    sent += client.socket.send(piece)
                except BlockingIOError:
                    break
        assert sent < 32 * limits.PIPELINE_BYTES
        held.release()


def test_request_is_read_at_any_split() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK)
        for byte in request():
            client.send(bytes([byte]))
        assert client.answer().status == 200


def test_chunked_request_is_read() -> None:
    body = b'5\r\n{"str\r\na\r\neam": true\r\n1\r\n}\r\n0\r\n\r\n'
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(OK)
        client.send(b"POST /tiny HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        assert client.answer().status == 200
        assert ledger.of(RequestReceived)[0].body == '{"stream": true}'


def test_client_that_expects_100_continue_gets_it_before_the_answer() -> None:
    head, _, body = request(Expect="100-continue").partition(b"\r\n\r\n")
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK)
        client.send(head + b"\r\n\r\n")
        assert client.head() == (100, {})
        assert client.send(body).answer().status == 200


@pytest.mark.parametrize(
    "head", [b"POST /tiny HTTP/1.0\r\n", b"POST /tiny HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"]
)
def test_client_that_wants_to_close_is_told_so_and_closed(head: bytes) -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK)
        answer = client.send(head + b'Content-Length: 16\r\n\r\n{"stream": true}').whole()
    assert answer.headers["connection"] == "close"
    assert answer.body.endswith(b"data: done\n\n")
    assert ("transfer-encoding" in answer.headers) == (b"1.1" in head)


def test_client_that_shuts_its_side_after_the_request_is_still_answered() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK)
        client.post(Connection="close").socket.shutdown(socket.SHUT_WR)
        assert client.whole().body.endswith(b"data: done\n\n")


def test_unread_input_does_not_turn_the_end_into_a_reset() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK.protocol_cut())
        client.send(request() + b"x" * 100_000)
        assert b"data: b" in client.rest()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00" + b"\x00" * 40,
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\r\n\r\n",
    ],
    ids=["tls", "text", "no-host", "nul"],
)
def test_garbage_gets_400_and_harms_nobody(garbage: bytes) -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(OK)
        with Client(endpoint) as client:
            assert client.send(garbage).whole().status == 400
        endpoint.settle()
        (unmatched,) = ledger.of(RequestUnmatched)
        assert unmatched.why.startswith("not an HTTP request: ")
        assert ledger.of(WitnessFailed) == ()
        assert ask(endpoint).status == 200


def test_tls_client_is_told_what_to_do() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        client.send(b"\x16\x03\x01\x02\x00\r\n\r\n").whole()
        assert endpoint.problems() == [
            "request ?/r1 met no scripted reply: not an HTTP request: a TLS handshake; URLs here start with http://"
        ]


def test_proxy_client_is_answered_and_not_led_on() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        assert client.send(b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").answer().status == 404


@pytest.mark.parametrize("part", [b"POST", request()[:40], request()[:-3]])
def test_half_a_request_is_no_request(part: bytes) -> None:
    with serving() as (endpoint, ledger):
        with Client(endpoint) as client:
            client.send(part)
        with Client(endpoint) as rude:
            rude.send(part)
            rude.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        endpoint.play(OK)
        assert ask(endpoint).status == 200
        endpoint.settle()
        assert len(ledger.of(RequestReceived)) == 1
        assert endpoint.problems() == []


def test_head_beyond_the_bound_is_refused() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        client.send(b"POST /tiny HTTP/1.1\r\nX: " + b"x" * (limits.HEAD_BYTES + 1))
        assert client.whole().status == 400
        endpoint.settle()
        assert len(ledger.of(RequestUnmatched)) == 1


def test_body_beyond_the_bound_is_counted_and_dropped() -> None:
    size = limits.BODY_BYTES + 1000
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(OK)
        client.send(f"POST {TURN} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        status = client.send(b" " * size).answer().status
        (received,) = ledger.of(RequestReceived)
        assert (status, received.body_bytes, len(received.body)) == (413, size, limits.BODY_BYTES)
        assert client.post().answer().status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"[" * 100_000, b"\xff\xfe"])
def test_body_that_is_no_json_object_is_rejected(body: bytes) -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK)
        head = f"POST {TURN} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        answer = client.send(head + body).answer()
        assert (answer.status, json.loads(answer.body)["tiny"]["kind"]) == (400, "bad-request")
        assert client.post().answer().status == 200


def test_connections_are_bounded_and_idle_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 3)
    with serving() as (endpoint, ledger):
        held = endpoint.play(OK.hold(limit=60).times(3))
        with Client(endpoint) as idle:
            assert idle.post("/nothing").answer().status == 404
            busy = [Client(endpoint).post() for _ in range(3)]
            assert endpoint.requests.wait(3, LIMIT)
            assert idle.rest() == b""
            with Client(endpoint) as late:
                assert late.whole().status == 503
        endpoint.settle()
        assert [reached.limit for reached in ledger.of(CeilingReached)] == [3]
        held.release()
        for client in busy:
            assert client.answer().status == 200
            client.socket.close()


def test_listener_without_file_descriptors_waits_for_one() -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving() as (endpoint, ledger), socket.socket() as late:
        endpoint.play(OK)
        endpoint.settle()
        late.settimeout(LIMIT)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
        try:
            late.connect(("127.0.0.1", endpoint.port))
            late.sendall(request())
            endpoint.settle()
            assert ledger.of(RequestReceived) == ()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert late.recv(15) == b"HTTP/1.1 200 OK"
        assert ledger.of(WitnessFailed) == ()


def test_slow_reader_holds_up_nobody_and_gets_everything() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as slow:
        endpoint.play(Reply().text("z" * 8_000_000, "y"), OK)
        slow.post()
        assert endpoint.requests.wait(1, LIMIT)
        assert ask(endpoint).status == 200
        endpoint.settle()
        assert [end.stream for end in ledger.of(StreamEnded)] == ["s2"]
        assert slow.answer().body.count(b"z") == 8_000_000


# -- pieces, without a socket -------------------------------------------------------------------------


def test_reader_hands_over_what_follows_a_request() -> None:
    reader = RequestReader()
    assert reader.untouched
    reader.feed(request("/a") + request("/b")[:20])
    first = reader.next()
    following = reader.following()
    assert following.next() is None
    following.feed(request("/b")[20:])
    second = following.next()
    assert first is not None
    assert second is not None
    assert (first.target, second.target) == ("/a", "/b")
    assert following.following().untouched


def test_outbox_tells_body_from_framing_at_every_split() -> None:
    pieces = [(b"h", b"abc", b"t"), (b"", b"", b"x"), (b"hh", b"defg", b""), (b"", b"i", b"tt")]
    wire = b"".join(lead + body + trail for lead, body, trail in pieces)
    for step in range(1, len(wire) + 1):
        outbox, sent, body = Outbox(), b"", 0
        for lead, data, trail in pieces:
            outbox.push(data, lead, trail)
        while outbox.size:
            waiting = b"".join(outbox.pieces())
            took = min(step, len(waiting))
            sent += waiting[:took]
            body += outbox.left(took)
            assert body <= len(b"abcdefgi")
        assert (sent, body) == (wire, len(b"abcdefgi"))
