"""Requests that are recorded, matched with scripted replies, counted and refused."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from endpoint_kit import LIMIT, TINY, Client, ask, request, serving

from pytest_agentguard import LimitReached, Reply, UsageError, Where
from pytest_agentguard._core import limits
from pytest_agentguard.events import (
    CeilingReached,
    ReplyStarted,
    RequestReceived,
    RequestUnmatched,
    StreamEnded,
    TranscriptRejected,
    WitnessFailed,
)

OK = Reply().text("fine")


# -- what is recorded -------------------------------------------------------------------------------


def test_request_is_recorded_before_it_is_answered() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        played = endpoint.play(OK.hold(limit=60))
        client.post(body={"stream": True, "messages": ["é"]}, Authorization="Bearer secret", X_Other="kept")
        assert played.received.wait(LIMIT)
        (received,) = ledger.of(RequestReceived)
        endpoint.release()
        client.answer()
        (started,) = ledger.of(ReplyStarted)
    assert received.seq < started.seq
    assert (received.request, received.method, received.path) == ("r1", "POST", "/v1/tiny")
    assert (received.dialect, received.mode, received.kind, received.turn) == ("tiny", "stream", "turn", 1)
    assert json.loads(received.body) == {"stream": True, "messages": ["é"]}
    assert received.body_bytes == len(received.body)
    assert received.headers["x-other"] == "kept"
    assert started.request == "r1"


def test_credentials_are_recorded_by_name_only() -> None:
    secrets = {"Authorization": "Bearer s3cret", "X_Api_Key": "s3cret", "Cookie": "a=s3cret"}
    with serving() as (endpoint, ledger):
        endpoint.play(OK)
        ask(endpoint, "/v1/tiny?key=s3cret&alt=sse", **secrets)
        (received,) = ledger.of(RequestReceived)
    assert received.credentials == ("authorization", "x-api-key", "cookie", "?key=")
    assert received.path == "/v1/tiny?key=present&alt=sse"
    assert received.headers["authorization"] == "present"
    assert "s3cret" not in repr(received)


def test_body_that_is_no_utf8_is_kept_as_escapes() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        status = (
            client.send(b"POST /tiny HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n\xff{").answer().status
        )
        (received,) = ledger.of(RequestReceived)
    assert (status, received.body, received.body_bytes) == (400, "\\xff{", 2)


def test_turn_is_one_more_than_the_turns_completed_before() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(OK.cut(), OK.status(503), OK, OK, OK)
        endpoint.play(OK, lane="other")
        for _ in range(5):
            ask(endpoint)
        ask(endpoint, "/lane/other/v1/tiny")
        turns = [received.turn for received in ledger.of(RequestReceived)]
    assert turns == [1, 1, 1, 2, 3, 1]


def test_next_turn_counts_as_soon_as_the_finish_has_left() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        endpoint.play(OK.keep_open(limit=60), OK)
        client.post().until(b"data: done\n\n")
        ask(endpoint)
        assert [received.turn for received in ledger.of(RequestReceived)] == [1, 2]
        endpoint.release()


def test_wire_files_keep_both_directions_without_credentials(tmp_path: Path) -> None:
    with serving(wire=tmp_path / "wire") as (endpoint, _):
        endpoint.play(OK, lane="a")
        answer = ask(endpoint, "/lane/a/tiny", Authorization="Bearer s3cret")
        endpoint.settle()
        names = sorted(path.name for path in (tmp_path / "wire").iterdir())
        sent = (tmp_path / "wire" / "a-s1.response").read_bytes()
        received = (tmp_path / "wire" / "a-r1.request").read_bytes()
    assert names == ["a-r1.request", "a-s1.response"]
    assert sent.endswith(answer.raw)
    assert b"authorization: present\r\n" in received
    assert received.endswith(b'{"stream": true}')


# -- paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/v1/tiny", "/tiny", "/v1/v1/tiny", "/v1/tiny/", "/openai/v1/tiny", "/tiny?a=b"]
)
def test_doubled_or_missing_version_is_the_same_path(path: str) -> None:
    with serving() as (endpoint, _):
        endpoint.play(OK)
        assert ask(endpoint, path).status == 200


def test_absolute_target_of_a_proxy_client_is_understood() -> None:
    with serving() as (endpoint, _):
        endpoint.play(OK)
        assert ask(endpoint, f"{endpoint.root_url}/v1/tiny").status == 200


def test_lane_is_the_prefix_of_the_path() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(OK, lane="a-1")
        assert endpoint.base_url("tiny", lane="a-1") == f"{endpoint.root_url}/lane/a-1/v1"
        assert ask(endpoint).status == 500
        assert ask(endpoint, "/lane/a-1/v1/tiny").status == 200
        endpoint.settle()
        (end,) = ledger.of(StreamEnded)
    assert (end.lane, end.stream) == ("a-1", "a-1/s1")


def test_lane_that_no_url_can_carry_is_wrong_use() -> None:
    with serving() as (endpoint, _), pytest.raises(UsageError, match="lane='a/b' has characters outside"):
        endpoint.play(OK, lane="a/b")


def test_unknown_path_gets_404_and_the_paths_that_exist() -> None:
    with serving() as (endpoint, ledger):
        answer = ask(endpoint, "/v1/nothing")
        endpoint.settle()
        (received,) = ledger.of(RequestReceived)
    assert answer.status == 404
    assert json.loads(answer.body)["error"]["paths"] == ["POST /v1/tiny", "GET /v1/models"]
    assert (received.kind, received.dialect, received.turn) == ("other", "", 0)
    assert endpoint.problems() == ["request r1 met no scripted reply: no dialect has POST /v1/nothing"]


def test_head_gets_a_head_only() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK)
        status, headers = client.send(b"HEAD /v1/tiny HTTP/1.1\r\nHost: x\r\n\r\n").head()
        assert (status, int(headers["content-length"]) > 0) == (404, True)
        assert client.post().answer().status == 200
        assert endpoint.problems() == []


def test_models_are_listed_without_a_reply() -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        answer = client.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").answer()
        (received,) = ledger.of(RequestReceived)
    assert json.loads(answer.body) == ["agentguard-model"]
    assert (received.kind, received.dialect) == ("models", "tiny")
    assert (endpoint.requests.count, len(endpoint.requests.all)) == (0, 1)


# -- matching ---------------------------------------------------------------------------------------


def test_replies_are_served_in_order_and_as_often_as_they_say() -> None:
    with serving() as (endpoint, _):
        endpoint.play(Reply().status(503).times(2), OK)
        assert [ask(endpoint).status for _ in range(4)] == [503, 503, 200, 500]


def test_first_reply_that_fits_is_served() -> None:
    with serving() as (endpoint, _):
        endpoint.play(
            Reply().status(401).on("other"),
            Reply().status(403).on(matches=lambda request: "wanted" in request.body),
            OK,
        )
        assert ask(endpoint).status == 200
        assert ask(endpoint, body={"wanted": 1}).status == 403
        assert endpoint.unplayed() == ["reply 1 (status-401) was scripted and never requested"]


def test_request_without_a_reply_is_an_error_in_the_shape_of_the_dialect() -> None:
    with serving() as (endpoint, ledger):
        answer = ask(endpoint)
        (unmatched,) = ledger.of(RequestUnmatched)
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert json.loads(answer.body)["tiny"]["message"] == "agentguard: no scripted reply for request r1"
    assert (unmatched.request, unmatched.why) == (
        "r1",
        "no scripted reply is left (dialect=tiny mode=stream)",
    )
    assert len(endpoint.problems()) == 1


def test_unplayed_reply_is_told_unless_it_is_optional() -> None:
    with serving() as (endpoint, _):
        endpoint.play(Reply().call("pay", x="1").cut(), OK.optional())
        assert endpoint.unplayed() == ["reply 1 (call pay, cut) was scripted and never requested"]


def test_reply_queue_is_bounded() -> None:
    with serving() as (endpoint, _), pytest.raises(LimitReached, match=f"limit={limits.REPLY_QUEUE}"):
        endpoint.play(*[OK] * (limits.REPLY_QUEUE + 1))


def test_play_takes_replies_only() -> None:
    with serving() as (endpoint, _), pytest.raises(UsageError, match="play\\(\\) takes replies, not 'hello'"):
        endpoint.play("hello")  # type: ignore[arg-type]


def test_predicate_that_raises_is_told_and_the_engine_goes_on() -> None:
    def wrong(request: object) -> bool:
        raise KeyError("no such thing")

    with serving() as (endpoint, ledger):
        endpoint.play(OK.on(matches=wrong))
        answer = ask(endpoint)
        assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
        assert b"agentguard: the endpoint failed: KeyError" in answer.body
        (failed,) = ledger.of(WitnessFailed)
        assert failed.error == "KeyError: 'no such thing'"
        assert endpoint.problems() == ["endpoint failed: KeyError: 'no such thing'"]
        assert ask(endpoint, "/nothing").status == 404


def test_predicate_that_fails_the_test_is_answered_too() -> None:
    with serving() as (endpoint, _):
        endpoint.play(OK.on(matches=lambda request: pytest.fail("not this one")))
        answer = ask(endpoint)
        assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
        assert endpoint.problems() == ["endpoint failed: Failed: not this one"]


def test_closed_endpoint_takes_no_replies() -> None:
    with serving() as (endpoint, _):
        pass
    with pytest.raises(UsageError, match="play\\(\\) of an endpoint that has been closed"):
        endpoint.play(OK)


def test_reply_that_cannot_be_planned_is_told() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(OK.cut(Where("piece", part=7)))
        assert ask(endpoint).status == 500
        (failed,) = ledger.of(WitnessFailed)
        assert failed.error == "UsageError: the reply has no fragment 0 of part 7"


def test_recorder_that_raises_in_the_middle_ends_the_stream_as_server_failed() -> None:
    class Fragile:
        def __init__(self) -> None:
            self.kinds: list[str] = []
            self.ends: list[str] = []

        def record(self, kind: type, /, **fields: object) -> None:
            self.kinds.append(kind.__name__)
            if kind is StreamEnded:
                self.ends.append(str(fields["end"]))
            if kind.__name__ == "StreamCompleted":
                raise OSError("disk full")

    with serving() as (endpoint, _):
        fragile = Fragile()
        endpoint._desk._recorder = fragile
        endpoint.play(OK)
        with Client(endpoint) as client:
            assert client.post().rest() == b""
        endpoint.settle()
    assert fragile.kinds[-2:] == ["WitnessFailed", "StreamEnded"]
    assert fragile.ends == ["server-failed"]


# -- transcripts, ceiling ---------------------------------------------------------------------------


def test_rejected_transcript_uses_up_no_reply() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(OK)
        rejected = ask(endpoint, body={"problem": "no result for call c1"})
        (fact,) = ledger.of(TranscriptRejected)
        assert ask(endpoint).status == 200
    assert (rejected.status, fact.problem) == (400, "no result for call c1")
    assert b"no result for call c1" in rejected.body


def test_transcripts_are_not_checked_when_switched_off() -> None:
    with serving(check_transcripts=False) as (endpoint, ledger):
        endpoint.play(OK)
        assert ask(endpoint, body={"problem": "no result"}).status == 200
        assert ledger.of(TranscriptRejected) == ()


def test_unsupported_request_gets_the_400_of_its_dialect() -> None:
    with serving() as (endpoint, _):
        endpoint.play(OK)
        answer = ask(endpoint, body={"unsupported": "no threads here"})
        assert (answer.status, answer.body) == (400, b"no threads here")
        assert ask(endpoint).status == 200


def test_ceiling_is_said_once_and_nothing_is_counted_beyond_it() -> None:
    with serving(ceiling=2) as (endpoint, ledger):
        endpoint.play(OK.times(5))
        answers = [ask(endpoint) for _ in range(4)]
        endpoint.settle()
        assert [answer.status for answer in answers] == [200, 200, 503, 503]
        assert answers[2].headers["x-should-retry"] == "false"
        assert b"ceiling of 2 requests reached" in answers[2].body
        assert [reached.limit for reached in ledger.of(CeilingReached)] == [2]
        assert endpoint.requests.count == 2


def test_lanes_have_a_ceiling_each_and_strange_lanes_share_one() -> None:
    with serving(ceiling=1) as (endpoint, _):
        endpoint.play(OK, lane="a")
        endpoint.play(OK, lane="b")
        assert ask(endpoint, "/lane/a/tiny").status == ask(endpoint, "/lane/b/tiny").status == 200
        assert [ask(endpoint, f"/lane/x{n}/tiny").status for n in range(3)] == [500, 503, 503]


# -- where it is ------------------------------------------------------------------------------------


def test_environment_leads_the_sdk_here_and_past_any_proxy() -> None:
    with serving() as (endpoint, _):
        env = endpoint.env("tiny", lane="a")
        assert env["TINY_URL"] == endpoint.base_url("tiny", "a")
        assert env["TINY_KEY"] == "agentguard-dummy-key"
        assert env["NO_PROXY"] == "127.0.0.1,localhost"
        assert endpoint.env() == endpoint.env("tiny")


def test_unknown_dialect_is_wrong_use() -> None:
    with serving() as (endpoint, _), pytest.raises(UsageError, match="did you mean 'tiny'"):
        endpoint.base_url("tini")


def test_plan_is_measured_without_a_request() -> None:
    with serving() as (endpoint, _):
        endpoint.play(OK)
        assert endpoint.measure(OK, "tiny", "stream").body == ask(endpoint).body


def test_closed_endpoint_refuses_connections_and_closes_twice() -> None:
    with serving() as (endpoint, _):
        with Client(endpoint) as idle:
            assert idle.post("/nothing").answer().status == 404
            endpoint.close()
            endpoint.close()
            assert idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", endpoint.port), timeout=LIMIT)


def test_ids_are_the_same_for_the_same_seed_and_differ_between_streams() -> None:
    def nonces() -> list[str]:
        with serving(seed="7") as (endpoint, _):
            endpoint.play(Reply().text("{nonce}"), Reply().text("{nonce}"))
            return [ask(endpoint).body.decode() for _ in range(2)]

    first = nonces()
    assert first == nonces()
    assert first[0] != first[1]


def test_requests_can_be_waited_for() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        endpoint.play(OK)
        assert not endpoint.requests.wait(1, 0.0)
        client.send(request())
        assert endpoint.requests.wait(1, LIMIT)
        assert [received.path for received in endpoint.requests] == ["/v1/tiny"]
        assert endpoint.requests[0].dialect == TINY.id
