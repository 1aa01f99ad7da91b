"""What the routes of the counting server do: failures, drops, holds, effects, bodies of every size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from counting_kit import CLIENT, LIMIT, asked, counting, get, post
from endpoint_kit import Client

from pytest_agentguard import Ledger, Route
from pytest_agentguard._core import limits
from pytest_agentguard.events import ClientClosed, EffectDone, HttpAnswered, StreamHeld, StreamReleased

MIB = 1024 * 1024


def only_answer(ledger: Ledger) -> HttpAnswered:
    """The one receipt."""
    (answer,) = ledger.of(HttpAnswered)
    return answer


def names(ledger: Ledger, *without: str) -> list[str]:
    """The kinds of fact in order, connections and those of ``without`` left out."""
    kinds = [type(fact).__name__ for fact in ledger]
    return [kind for kind in kinds if kind not in ("ConnectionAccepted", *without)]


# -- whole answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "failed"), [(200, False), (201, False), (400, True), (429, True), (503, True)]
)
def test_a_status_is_answered_as_it_is_asked_for(status: int, failed: bool) -> None:
    with counting() as (server, ledger):
        answer = get(server.route("/x", status=status, body="said").url)
        server.settle()
        receipt = only_answer(ledger)
    assert (answer.status_code, answer.text) == (status, "said")
    assert (receipt.status, receipt.end, receipt.failed) == (status, "clean", failed)
    assert (receipt.sent, receipt.planned, receipt.nonce, receipt.retry_after) == (4, 4, "", None)


@pytest.mark.parametrize("status", [204, 205, 304])
def test_a_status_that_has_no_body_gets_none(status: int) -> None:
    with counting() as (server, ledger):
        answer = get(server.route("/x", status=status).url)
        server.settle()
        receipt = only_answer(ledger)
    assert (answer.status_code, answer.content, receipt.sent, receipt.planned) == (status, b"", 0, 0)


def test_a_body_that_is_json_says_so() -> None:
    with counting() as (server, _):
        data, text = server.route("/data", body={"sum": 3}), server.route("/text", body="{half")
        answers = [get(route.url) for route in (data, text)]
    assert [answer.headers["content-type"] for answer in answers] == [
        "application/json",
        "text/plain; charset=utf-8",
    ]
    assert answers[0].json() == {"sum": 3}


def test_requests_get_one_answer_after_the_other_and_then_a_healthy_one() -> None:
    with counting() as (server, _):
        then = Route(path="/", does="fail", status=429, times=1, body="wait")
        route = server.route("/x", status=503, times=2, then=then)
        assert [get(route.url).status_code for _ in range(5)] == [503, 503, 429, 200, 200]
        assert route.received == 5


def test_what_is_said_for_all_later_requests_stays() -> None:
    with counting() as (server, _):
        route = server.route("/x", times=1, then=Route(path="/x", does="fail", status=500))
        assert [get(route.url).status_code for _ in range(3)] == [200, 500, 500]


@pytest.mark.parametrize(
    ("said", "seconds"), [(2, 2.0), ("0.25", 0.25), ("soon", None), ("-1", -1.0), ("nan", None), ("", None)]
)
def test_retry_after_is_sent_as_it_is_and_recorded_in_seconds(said: str | int, seconds: float | None) -> None:
    with counting() as (server, ledger):
        answer = get(server.route("/x", status=429, retry_after=said).url)
        server.settle()
    assert answer.headers.get("retry-after", "") == str(said)
    assert only_answer(ledger).retry_after == seconds


def test_a_date_in_retry_after_is_recorded_as_seconds_from_now() -> None:
    with counting() as (server, ledger):
        date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
        get(server.route("/x", status=503, retry_after=date).url)
        server.settle()
        seconds = only_answer(ledger).retry_after
    assert seconds is not None
    assert 3000 < seconds <= 3600


# -- answers that are none, or not whole ------------------------------------------------------------


def test_a_dropped_request_has_been_read_and_gets_no_byte() -> None:
    with counting() as (server, ledger), Client(server) as client:
        route = server.route("/x", drop=True)
        assert client.send(asked("/x")).rest() == b""
        server.settle()
        receipt = only_answer(ledger)
        assert route.received == 1
    assert (receipt.status, receipt.end, receipt.failed, receipt.sent) == (0, "dropped", True, 0)


def test_a_partial_answer_says_that_it_is_longer() -> None:
    with counting() as (server, ledger), Client(server) as client:
        server.route("/x", partial=5, body="abcdefgh")
        answer = client.send(asked("/x")).whole()
        server.settle()
    assert (answer.headers["content-length"], answer.raw) == ("8", b"abcde")
    receipt = only_answer(ledger)
    assert (receipt.status, receipt.end, receipt.failed, receipt.sent, receipt.planned) == (
        200,
        "cut",
        True,
        5,
        5,
    )


def test_a_partial_answer_may_be_longer_than_its_body() -> None:
    with counting() as (server, _), pytest.raises(httpx.RemoteProtocolError):
        get(server.route("/x", partial=100, body="short").url)


def test_an_oversized_answer_has_exactly_its_size() -> None:
    with counting() as (server, ledger):
        answer = get(server.route("/x", oversize=3 * MIB + 1).url)
        server.settle()
    assert (len(answer.content), answer.headers["content-length"]) == (3 * MIB + 1, str(3 * MIB + 1))
    receipt = only_answer(ledger)
    assert (receipt.end, receipt.failed, receipt.sent, receipt.planned) == (
        "clean",
        False,
        *[3 * MIB + 1] * 2,
    )


def test_an_endless_answer_ends_when_its_client_has_enough() -> None:
    with counting() as (server, ledger):
        route = server.route("/x", endless=True)
        with httpx.stream("GET", route.url, **CLIENT) as answer:
            assert "content-length" not in answer.headers
            for _ in zip(range(3), answer.iter_raw(), strict=False):
                pass
        assert route.closed.wait(LIMIT)
        server.settle()
        receipt = only_answer(ledger)
    assert (receipt.end, receipt.failed, receipt.planned) == ("client-left", True, limits.FLOOD_BYTES)
    assert 0 < receipt.sent < receipt.planned


def test_an_endless_answer_is_cut_at_its_bound() -> None:
    with counting() as (server, ledger):
        server.add(Route(path="/x", does="endless", size=MIB))
        with Client(server) as client:
            answer = client.send(asked("/x")).whole()
        server.settle()
    assert answer.headers["transfer-encoding"] == "chunked"
    assert not answer.raw.endswith(b"\r\n0\r\n\r\n")
    assert (only_answer(ledger).end, only_answer(ledger).sent) == ("cut", MIB)


# -- holds ------------------------------------------------------------------------------------------


def test_a_held_request_gets_its_answer_when_it_is_released() -> None:
    with counting() as (server, ledger), Client(server) as client:
        route = server.route("/x", hold=True, status=201, body="late")
        client.send(asked("/x"))
        assert route.arrived.wait(LIMIT)
        route.release()
        answer = client.answer()
        server.settle()
        (held,), (released,) = ledger.of(StreamHeld), ledger.of(StreamReleased)
        after = client.send(asked("/x")).answer()  # from now on it does not hold
    assert (answer.status, answer.raw, after.status) == (201, b"late", 201)
    assert (held.stream, held.why, held.hold) == ("h1", "hold", "h1.hold")
    assert (released.stream, released.hold, released.by) == ("h1", "h1.hold", "test")


@pytest.mark.parametrize(("options", "limit"), [({}, 0.05), ({"hold_limit": 0.05}, 60)])
def test_a_hold_has_a_limit_that_the_server_may_replace(options: dict[str, float], limit: float) -> None:
    with counting(**options) as (server, ledger):
        assert get(server.route("/x", hold=True, limit=limit).url).status_code == 200
        assert [fact.by for fact in ledger.of(StreamReleased)] == ["limit"]


def test_one_route_is_released_and_the_others_stay_held() -> None:
    with counting() as (server, _), Client(server) as one, Client(server) as two:
        first, second = server.route("/1", hold=True), server.route("/2", hold=True)
        one.send(asked("/1"))
        two.send(asked("/2"))
        assert first.arrived.wait(LIMIT)
        assert second.arrived.wait(LIMIT)
        first.release()
        assert one.answer().status == 200
        two.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            two.socket.recv(1)


def test_everything_is_released_on_all_origins_at_the_end_of_a_run_of_its_lane() -> None:
    with counting(lane="a") as (server, ledger), Client(server) as one, Client(server.other_origin) as two:
        routes = server.route("/x", hold=True), server.other_origin.route("/x", hold=True)
        for client, route in zip((one, two), routes, strict=True):
            client.send(asked("/x"))
            assert route.arrived.wait(LIMIT)
        server.release(lane="b")
        assert ledger.of(StreamReleased) == ()
        server.release(lane="a")
        assert [one.answer().status, two.answer().status] == [200, 200]
        assert [fact.by for fact in ledger.of(StreamReleased)] == ["run-ended"] * 2


def test_a_client_that_gives_up_on_a_held_answer_is_recorded_before_the_release() -> None:
    with counting() as (server, ledger):
        route = server.route("/x", hold=True)
        with pytest.raises(httpx.ReadTimeout):
            get(route.url, timeout=0.05)
        assert route.closed.wait(LIMIT)
        server.settle()
        receipt = only_answer(ledger)
        assert names(ledger) == [
            "HttpReceived",
            "StreamHeld",
            "ClientClosed",
            "StreamReleased",
            "HttpAnswered",
        ]
    assert (receipt.status, receipt.end, receipt.failed) == (0, "client-left", True)


@pytest.mark.parametrize("data", [True, False], ids=["a scenario", "a test"])
def test_an_answer_stalls_in_its_body_and_goes_on_when_it_is_released(data: bool) -> None:
    with counting() as (server, ledger):
        route = (
            server.add(Route(path="/x", does="hold", size=3, body="stalled"))
            if data
            else server.route("/x", hold=True, partial=3, body="stalled")
        )
        with httpx.stream("GET", route.url, **CLIENT) as answer:
            pieces = answer.iter_bytes()
            first = next(pieces)
            server.settle()
            (held,) = ledger.of(StreamHeld)
            route.release()
            rest = b"".join(pieces)
        server.settle()
        (released,), receipt = ledger.of(StreamReleased), only_answer(ledger)
    assert (answer.status_code, first, rest) == (200, b"sta", b"lled")
    assert (held.stream, held.why, held.sent, released.by) == ("h1", "stall", 3, "test")
    assert (receipt.end, receipt.sent, receipt.planned, receipt.failed) == ("clean", 7, 7, False)


def test_a_short_body_that_stalls_is_made_longer() -> None:
    with counting() as (server, ledger):
        route = server.route("/x", hold=True, partial=6, body="ok", limit=0.05)
        assert get(route.url).text == "ok....."
        assert [fact.by for fact in ledger.of(StreamReleased)] == ["limit"]


def test_a_hold_lasts_for_a_request_without_a_body_too() -> None:
    with counting() as (server, _), Client(server) as client:
        route = server.route("/x", hold=True, effect=True, body="four")
        client.send(asked("/x", method="HEAD"))
        assert route.arrived.wait(LIMIT)
        assert route.effects == 0
        route.release()
        assert client.head()[1]["content-length"] == "4"
        assert route.effects == 1


def test_a_slow_answer_comes_by_itself_and_is_not_held() -> None:
    with counting() as (server, ledger):
        route = server.route("/x", slow=0.05, effect=True)
        with pytest.raises(httpx.ReadTimeout):
            get(route.url, timeout=0.01)
        assert route.wait_effects(1, LIMIT)
        assert get(route.url).status_code == 200
        server.settle()
        assert names(ledger, "HttpReceived", "HttpAnswered") == ["ClientClosed", "EffectDone", "EffectDone"]


# -- effects ----------------------------------------------------------------------------------------


def test_an_effect_happens_when_a_held_request_is_released_before_its_answer_leaves() -> None:
    with counting() as (server, ledger), Client(server) as client:
        pay = server.route("/pay", hold=True, effect=True)
        client.send(asked("/pay", method="POST"))
        assert pay.arrived.wait(LIMIT)
        assert pay.effects == 0
        pay.release()
        assert pay.effects == 1
        client.answer()
        server.settle()
        (done,) = ledger.of(EffectDone)
        assert names(ledger) == ["HttpReceived", "StreamHeld", "StreamReleased", "EffectDone", "HttpAnswered"]
    assert (done.request, done.route, done.count) == ("h1", "/pay", 1)


def test_an_effect_happens_though_its_client_has_gone_away() -> None:
    with counting() as (server, ledger):
        pay = server.route("/pay", hold=True, effect=True)
        with Client(server) as client:
            client.send(asked("/pay", method="POST"))
            assert pay.arrived.wait(LIMIT)
        assert pay.closed.wait(LIMIT)
        server.settle()
        before = names(ledger)
        pay.release()
        assert (before, pay.effects) == (["HttpReceived", "StreamHeld", "ClientClosed", "HttpAnswered"], 1)
        assert names(ledger)[4:] == ["StreamReleased", "EffectDone"]


def test_an_effect_without_a_client_happens_at_the_limit_of_its_hold() -> None:
    with counting(hold_limit=0.05) as (server, ledger):
        pay = server.route("/pay", hold=True, effect=True)
        with Client(server) as client:
            client.send(asked("/pay"))
            assert pay.arrived.wait(LIMIT)
        assert pay.wait_effects(1, LIMIT)
        server.settle()
        assert [fact.by for fact in ledger.of(StreamReleased)] == ["limit"]


def test_effects_that_wait_happen_when_the_server_closes() -> None:
    with counting() as (server, ledger):
        pay = server.route("/pay", hold=True, effect=True, limit=60)
        with Client(server) as gone:
            gone.send(asked("/pay"))
            assert pay.arrived.wait(LIMIT)
        assert pay.closed.wait(LIMIT)
        stays = Client(server).send(asked("/pay"))
        assert pay.wait(2, LIMIT)
    stays.socket.close()
    assert pay.effects == 2
    assert [fact.by for fact in ledger.of(StreamReleased)] == ["run-ended"] * 2
    assert len(ledger.of(ClientClosed)) == 1


def test_an_answer_that_is_due_at_once_has_its_effect_even_if_it_is_dropped() -> None:
    with counting() as (server, ledger):
        pay = server.route("/pay", drop=True, effect=True, times=1)
        with pytest.raises(httpx.RemoteProtocolError):
            post(pay.url)
        post(pay.url)
        server.settle()
        assert (pay.effects, pay.received) == (1, 2)
        assert names(ledger)[:3] == ["HttpReceived", "EffectDone", "HttpAnswered"]


def test_effects_are_counted_one_by_one() -> None:
    with counting() as (server, ledger):
        pay = server.route("/pay", effect=True)
        for _ in range(3):
            post(pay.url)
        assert [fact.count for fact in ledger.of(EffectDone)] == [1, 2, 3]
