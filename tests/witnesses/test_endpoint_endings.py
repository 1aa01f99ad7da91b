"""Every way in which an answer can end (wire facts §2), seen from the client's socket and from the ledger."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest
from endpoint_kit import LIMIT, Client, ask, serving

from pytest_agentguard import AFTER_FINISH, START, Ledger, Reply, at_byte
from pytest_agentguard._core import limits
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard.events import (
    CallOffered,
    ClientClosed,
    ReplyStarted,
    StreamCompleted,
    StreamEnded,
    StreamHeld,
    StreamReleased,
)

TURN = Reply().text("a ", "b").call("record", x="{nonce}")
BLOCK = {"stream": False}


def the_end(endpoint: Endpoint, ledger: Ledger) -> StreamEnded:
    endpoint.settle()
    (end,) = ledger.of(StreamEnded)
    return end


def test_whole_answer_ends_with_its_last_chunk_and_keeps_the_connection() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN, TURN)
        first = client.post().answer()
        second = client.post().answer()
        end = ledger.of(StreamEnded)[0]
    assert first.status == second.status == 200
    assert first.body.endswith(b"data: finish\n\ndata: done\n\n")
    assert "connection" not in first.headers
    assert (end.complete, end.end, end.fired) == (True, "clean", True)
    assert end.sent == end.planned == len(first.body)
    assert end.whole == end.begun == ("s1.c1",)
    assert end.text_sent == "a b"


def test_cut_before_the_finish_is_a_clean_end_for_http() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(TURN.cut())
        answer = ask(endpoint)
        end = the_end(endpoint, ledger)
    assert answer.chunks[-1] == b""
    assert b"finish" not in answer.body
    assert (end.complete, end.end, end.planned_end, end.fired) == (False, "clean", "clean", True)


def test_cut_whole_body_declares_the_length_that_it_has() -> None:
    with serving() as (endpoint, _):
        endpoint.play(TURN.cut())
        answer = ask(endpoint, body=BLOCK)
    assert b"finish" not in answer.body
    assert int(answer.headers["content-length"]) == len(answer.body)


def test_close_framing_says_close_and_ends_with_the_connection() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.cut(framing="close"))
        answer = client.post().whole()
        end = the_end(endpoint, ledger)
    assert answer.headers["connection"] == "close"
    assert not {"content-length", "transfer-encoding"} & set(answer.headers)
    assert len(answer.raw) == end.sent
    assert end.end == "clean"


@pytest.mark.parametrize("body", [None, BLOCK], ids=["stream", "block"])
def test_protocol_cut_ends_without_what_the_framing_promised(body: Any) -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.protocol_cut())
        answer = client.post(body=body).whole()
        end = the_end(endpoint, ledger)
    if body is None:
        assert answer.chunks[-1] != b""
    else:
        assert len(answer.raw) < int(answer.headers["content-length"])
    assert (end.complete, end.end, end.planned_end, end.fired) == (False, "cut", "cut", True)


def test_protocol_cut_behind_the_last_byte_still_breaks_the_length() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(TURN.protocol_cut("end"))
        answer = client.post(body=BLOCK).whole()
    assert answer.raw.endswith(b"data: done\n\n")
    assert int(answer.headers["content-length"]) == len(answer.raw) + 1


def test_reset_comes_after_the_bytes_before_it() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.reset())
        client.post()
        with pytest.raises(ConnectionResetError):
            client.rest()
        end = the_end(endpoint, ledger)
    assert b"data: b\n\n" in client.buffer
    assert (end.end, end.fired, end.sent) == ("reset", True, end.planned)


def test_large_answer_leaves_whole_before_its_reset() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(Reply().text("z" * 3_000_000, "y").reset())
        client.post()
        with pytest.raises(ConnectionResetError):
            client.rest()
        end = the_end(endpoint, ledger)
    assert client.buffer.count(b"z") == 3_000_000
    assert end.sent == end.planned


def test_reset_waits_for_a_client_that_does_not_read_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RESET_SECONDS", 0.02)
    with serving() as (endpoint, ledger), Client(endpoint, buffer=4096) as client:
        played = endpoint.play(Reply().text("z" * 300_000, "y").reset())
        client.post()
        assert played.ended.wait(LIMIT)
        end = the_end(endpoint, ledger)
    assert (end.end, end.fired) == ("reset", False)
    assert end.sent < end.planned


def test_closing_the_endpoint_does_not_wait_for_a_reset() -> None:
    with serving() as (endpoint, ledger), Client(endpoint, buffer=4096) as client:
        endpoint.play(Reply().text("z" * 300_000, "y").reset())
        client.post().until(b"z")
        endpoint.settle()
        endpoint.close()
        assert [end.end for end in ledger.of(StreamEnded)] == ["reset"]


def test_stall_lasts_until_it_is_released_and_then_ends_without_another_byte() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        played = endpoint.play(TURN.stall(limit=60))
        client.post()
        client.until(b"data: b\n\n")
        endpoint.settle()
        (held,) = ledger.of(StreamHeld)
        assert not ledger.of(StreamReleased)
        before = client.buffer
        played.release()
        (released,) = ledger.of(StreamReleased)
        rest = client.rest()
        end = the_end(endpoint, ledger)
    assert b"0\r\n\r\n" not in rest
    assert rest.startswith(before)
    assert (held.why, held.sent, released.by) == ("stall", end.sent, "test")
    assert (end.end, end.complete, end.fired) == ("stalled", False, True)
    assert held.seq < released.seq < end.seq


def test_stall_ends_at_its_limit() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.stall(limit=0.02))
        client.post().whole()
        endpoint.settle()
        (released,) = ledger.of(StreamReleased)
    assert released.by == "limit"


def test_release_after_replaces_the_limit_of_a_hold() -> None:
    with serving(release_after=0.02) as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.stall(limit=600))
        client.post().whole()
        endpoint.settle()
        assert [released.by for released in ledger.of(StreamReleased)] == ["limit"]


def test_stall_at_the_start_has_sent_the_head() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.stall(START, limit=60))
        status, _ = client.post().head()
        end_before = ledger.of(StreamEnded)
        endpoint.release()
        assert client.rest() == b""
    assert (status, end_before) == (200, ())


def test_drip_sends_keep_alives_and_never_the_rest() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.drip(every=0.005, limit=60))
        client.post().until(b": keep\n\n")
        client.until(b": keep\n\n")
        endpoint.release()
        rest = client.rest()
        end = the_end(endpoint, ledger)
    assert b"finish" not in rest
    assert (end.end, end.sent, end.planned) == ("stalled", end.planned, end.planned)
    assert end.gap > 0
    assert endpoint.sent_bytes > end.sent


def test_drip_never_fills_the_declared_length() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(TURN.drip(at_byte(3), every=0.001, limit=0.05))
        answer = client.post(body=BLOCK).whole()
    assert len(answer.raw) < int(answer.headers["content-length"])
    assert set(answer.raw[3:]) == {ord(" ")}


@pytest.mark.parametrize("body", [None, BLOCK], ids=["stream", "block"])
def test_kept_open_answer_has_its_marker_and_no_end(body: Any) -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.keep_open(limit=60))
        client.post(body=body).until(b"data: done\n\n")
        endpoint.settle()
        completed, held = ledger.of(StreamCompleted)[0], ledger.of(StreamHeld)[0]
        assert ledger.of(StreamEnded) == ()
        endpoint.release()
        rest = client.rest()
        end = the_end(endpoint, ledger)
    assert b"0\r\n\r\n" not in rest
    assert completed.seq < held.seq
    assert (held.why, end.end, end.complete, end.fired) == ("keep-open", "stalled", True, True)


def test_held_answer_goes_on_when_it_is_released() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        played = endpoint.play(TURN.hold(limit=60))
        client.post()
        assert played.received.wait(LIMIT)
        endpoint.settle()
        assert [held.why for held in ledger.of(StreamHeld)] == ["hold"]
        played.release()
        answer = client.answer()
        end = the_end(endpoint, ledger)
    assert answer.body.endswith(b"data: done\n\n")
    assert (end.end, end.complete) == ("clean", True)


def test_reply_that_is_released_before_its_request_does_not_hold() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(TURN.hold(limit=60)).release()
        ask(endpoint)
        endpoint.settle()
        assert [released.by for released in ledger.of(StreamReleased)] == ["test"]


def test_release_of_one_lane_leaves_the_others_held() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as one, Client(endpoint) as two:
        first = endpoint.play(TURN.hold(limit=60), lane="one")
        second = endpoint.play(TURN.hold(limit=60), lane="two")
        one.post("/lane/one/v1/tiny")
        two.post("/lane/two/v1/tiny")
        assert first.received.wait(LIMIT)
        assert second.received.wait(LIMIT)
        endpoint.release(by="run-ended", lane="one")
        assert [(r.lane, r.by) for r in ledger.of(StreamReleased)] == [("one", "run-ended")]
        assert one.answer().status == 200
        endpoint.release()
        assert two.answer().status == 200


def test_client_that_closes_in_a_hold_ends_the_stream() -> None:
    with serving() as (endpoint, ledger):
        played = endpoint.play(TURN.stall(limit=60))
        with Client(endpoint) as client:
            client.post().until(b"data: b\n\n")
        assert played.closed.wait(LIMIT)
        end = the_end(endpoint, ledger)
        (closed,), (released,) = ledger.of(ClientClosed), ledger.of(StreamReleased)
    assert released.by == "client-closed"
    assert closed.seq < released.seq < end.seq
    assert (end.end, end.planned_end) == ("client-left", "stalled")


def test_client_that_resets_in_a_hold_has_closed_it_too() -> None:
    with serving() as (endpoint, ledger):
        played = endpoint.play(TURN.stall(limit=60))
        with Client(endpoint) as client:
            client.post().until(b"data: b\n\n")
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert played.closed.wait(LIMIT)
        assert the_end(endpoint, ledger).end == "client-left"


def test_drip_to_a_client_that_does_not_read_piles_up_nothing() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        played = endpoint.play(TURN.drip(every=0.001, limit=0.1, data=b"z" * 2_000_000))
        client.post()
        assert played.ended.wait(LIMIT)
        end = the_end(endpoint, ledger)
        assert (end.end, end.sent) == ("stalled", end.planned)
        assert endpoint.sent_bytes < 20 * 2_000_000
        client.socket.close()


def test_closing_the_endpoint_in_a_pause_is_a_cut() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.pause(60, 5))
        client.post().until(b"data:")
        endpoint.close()
        (end,) = ledger.of(StreamEnded)
    assert (end.end, end.complete, end.sent) == ("cut", False, 5)


def test_client_that_resets_in_a_flood_ends_the_stream() -> None:
    with serving() as (endpoint, ledger):
        played = endpoint.play(Reply().text("a ", "b").flood("event", 1 << 30))
        with Client(endpoint) as client:
            client.post().head()
        assert played.ended.wait(LIMIT)
        end = the_end(endpoint, ledger)
    assert (end.end, end.fired) == ("client-left", False)
    assert end.sent < end.planned


def test_flood_has_the_size_that_was_asked_for() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(Reply().text("a ", "b").flood("event", 1_000_000))
        answer = ask(endpoint)
        end = the_end(endpoint, ledger)
    assert answer.body.count(b"x") == 1_000_000
    assert (end.sent, end.fired) == (len(answer.body), True)
    assert endpoint.sent_bytes == len(answer.body)


def test_each_piece_is_a_chunk_of_its_own() -> None:
    with serving() as (endpoint, _):
        endpoint.play(TURN.split(each=1), TURN.split(by="event"))
        bytewise, eventwise = ask(endpoint), ask(endpoint)
    assert {len(chunk) for chunk in bytewise.chunks[:-1]} == {1}
    assert all(chunk.endswith(b"\n\n") for chunk in eventwise.chunks[:-1])
    assert bytewise.body != b""


def test_what_permits_is_recorded_before_its_bytes_and_the_end_after_all() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.hold(AFTER_FINISH, limit=60))
        client.post().until(b"data: finish\n\n")
        kinds = [type(event) for event in ledger]
        assert kinds.index(ReplyStarted) < kinds.index(CallOffered) < kinds.index(StreamCompleted)
        assert StreamEnded not in kinds
        endpoint.release()
        client.until(b"0\r\n\r\n")
        assert the_end(endpoint, ledger).complete


def test_marker_is_not_recorded_before_its_place_is_reached() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.hold(at_byte(5), limit=60))
        client.post().until(b"data:")
        endpoint.settle()
        assert (len(ledger.of(CallOffered)), len(ledger.of(StreamCompleted))) == (0, 0)
        endpoint.release()
        client.until(b"0\r\n\r\n")
        assert len(ledger.of(StreamCompleted)) == 1


def test_pause_goes_on_by_itself() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(TURN.pause(0.02, 5))
        answer = ask(endpoint)
        end = the_end(endpoint, ledger)
    assert answer.body.endswith(b"data: done\n\n")
    assert end.gap >= 0.02


def test_closing_the_endpoint_ends_what_is_held() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(TURN.stall(limit=60))
        client.post().until(b"data: b\n\n")
        endpoint.settle()
        endpoint.close()
        assert [released.by for released in ledger.of(StreamReleased)] == ["run-ended"]
        assert [end.end for end in ledger.of(StreamEnded)] == ["stalled"]


def test_status_without_a_name_is_sent_all_the_same() -> None:
    with serving() as (endpoint, _):
        endpoint.play(Reply().status(529))
        assert ask(endpoint).status == 529


@pytest.mark.parametrize("status", [204, 304])
def test_status_without_a_body_sends_none(status: int) -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(Reply().status(status), TURN)
        client.post()
        assert client.head()[0] == status
        assert client.post().answer().status == 200


def test_redirect_error_and_html_are_whole_answers() -> None:
    with serving() as (endpoint, _):
        endpoint.play(
            Reply().redirect("http://127.0.0.1:1/x"), Reply().status(503, retry_after=0), Reply().html()
        )
        moved, failed, page = ask(endpoint), ask(endpoint), ask(endpoint)
    assert (moved.status, moved.headers["location"]) == (307, "http://127.0.0.1:1/x")
    assert (failed.status, failed.headers["retry-after"]) == (503, "0")
    assert b'"overloaded"' in failed.body
    assert page.headers["content-type"].startswith("text/html")
