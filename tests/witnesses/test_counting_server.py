"""What the counting server counts, and what it records of a request and of its answer."""

from __future__ import annotations

import json
import socket

import httpx
import pytest
from counting_kit import CLIENT, LIMIT, asked, counting, get, post
from endpoint_kit import Client

from pytest_agentguard import AgentguardError, Route, UsageError
from pytest_agentguard._core import limits
from pytest_agentguard._witnesses.counting_server import CountingServer
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard.events import (
    CeilingReached,
    ConnectionAccepted,
    HttpAnswered,
    HttpReceived,
    RedirectOffered,
    WitnessFailed,
)

# -- a request --------------------------------------------------------------------------------------


def test_a_request_is_recorded_with_what_came() -> None:
    with counting(lane="a") as (server, ledger):
        pay = server.route("/pay")
        post(f"{pay.url}?page=2", json={"sum": 3}, headers={"Idempotency-Key": "k1"})
        server.settle()
        (received,) = ledger.of(HttpReceived)
    assert (received.request, received.lane, received.method) == ("a/h1", "a", "POST")
    assert received.url == f"http://127.0.0.1:{server.port}/pay?page=2"
    assert (received.route, received.origin, received.allowed) == ("/pay", "first", True)
    assert (received.host, received.key) == (f"127.0.0.1:{server.port}", "k1")
    assert (json.loads(received.body), received.body_bytes) == ({"sum": 3}, len(received.body))
    assert pay.requests == server.requests == (received,)


def test_a_request_counts_once_it_has_been_read_whole() -> None:
    with counting() as (server, ledger), Client(server) as client:
        pay = server.route("/pay")
        client.send(asked("/pay", "Content-Length: 4", method="POST") + b"ab")
        server.settle()
        before = pay.received, len(ledger.of(HttpReceived))
        client.send(b"cd").answer()
        assert (before, pay.received) == ((0, 0), 1)
        assert pay.requests[0].body == "abcd"


def test_a_request_whose_client_left_half_way_never_counts() -> None:
    with counting() as (server, ledger):
        server.route("/pay")
        with Client(server) as client:
            client.send(asked("/pay", "Content-Length: 4", method="POST") + b"ab")
        server.settle()
        assert (server.received, len(ledger.of(ConnectionAccepted))) == (0, 1)


def test_a_request_is_recorded_before_its_answer_and_the_answer_before_the_next_request() -> None:
    with counting() as (server, ledger):
        orders = server.route("/orders")
        with httpx.Client(**CLIENT) as client:
            bodies = [client.get(orders.url).text for _ in range(2)]
        server.settle()
        kinds = [type(fact).__name__ for fact in ledger]
        nonces = [f"ok {answer.nonce}" for answer in ledger.of(HttpAnswered)]
    assert kinds == ["ConnectionAccepted", *["HttpReceived", "HttpAnswered"] * 2]
    assert bodies == nonces
    assert len({*bodies}) == 2


def test_requests_are_kept_in_the_order_of_arrival_over_all_routes_and_origins() -> None:
    with counting() as (server, _):
        first, other, name = (
            server.route("/a"),
            server.other_origin.route("/b"),
            server.other_name.route("/c"),
        )
        for url in (other.url, first.url, name.url, other.url):
            get(url)
        assert [request.route for request in server.requests] == ["/b", "/a", "/c", "/b"]
        assert [request.origin for request in server.requests] == ["other", "first", "name", "other"]
        assert (server.received, first.received, other.received, name.received) == (4, 1, 2, 1)
        assert (server.other_origin.received, server.other_name.received) == (2, 1)


def test_credentials_are_recorded_by_name_only() -> None:
    with counting() as (server, ledger):
        route = server.route("/x")
        get(f"{route.url}?key=s3cret", headers={"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret"})
        (received,) = ledger.of(HttpReceived)
    assert received.credentials == ("authorization", "x-api-key", "?key=")
    assert received.url.endswith("/x?key=present")
    assert "s3cret" not in repr(received)


def test_canaries_are_found_wherever_they_come_and_shown_by_name() -> None:
    with counting() as (server, ledger):
        server.canary("token", "c/4na ry")
        route = server.route("/x")
        post(f"{route.url}?q=c%2F4na%20ry", auth=("me", "c/4na ry"), headers={"X-Note": "a c/4na ry"},
             json={"said": "c/4na ry"})  # fmt: skip
        post(route.url, data={"form": "c/4na ry"})
        get(route.url)
        found = [received.canaries for received in ledger.of(HttpReceived)]
    assert found == [
        ("token in url", "token in header x-note", "token in header authorization", "token in body"),
        ("token in body",),
        (),
    ]
    assert ledger.of(HttpReceived)[0].body == '{"said":"{token}"}'


def test_a_canary_without_a_value_is_wrong_use() -> None:
    with counting() as (server, _), pytest.raises(UsageError, match="canary 'token' has no value"):
        server.canary("token", "")


def test_a_long_body_is_kept_in_part_and_counted_whole() -> None:
    with counting() as (server, ledger):
        post(server.route("/x").url, content=b"a" * 100_000)
        (received,) = ledger.of(HttpReceived)
    assert received.body_bytes == 100_000
    assert received.body == "a" * limits.COUNTED_BODY_BYTES + "… (100000 bytes)"


# -- what no route is for ---------------------------------------------------------------------------


def test_a_request_without_a_route_is_a_fact_and_a_problem() -> None:
    with counting() as (server, ledger):
        server.route("/orders")
        answer = get(f"{server.root_url}/order")
        (received,) = ledger.of(HttpReceived)
        said = f"met no route: GET {server.root_url}/order; routes here: /orders"
        assert (answer.status_code, answer.text) == (404, f"agentguard: request h1 {said}")
        assert (received.route, received.allowed) == ("", False)
        assert server.problems() == [f"request h1 {said}"]


def test_a_path_with_a_star_is_for_all_that_begin_so_and_the_longest_wins() -> None:
    with counting() as (server, _):
        rest, api, orders = server.route("*", status=404), server.route("/api/*"), server.route("/api/orders")
        statuses = [
            get(f"{server.root_url}{path}").status_code
            for path in ("/x", "/api/y", "/api/orders", "/api/orders/7")
        ]
        assert statuses == [404, 200, 200, 200]
        assert (rest.received, api.received, orders.received) == (1, 2, 1)
        assert server.problems() == []


def test_a_request_that_is_not_allowed_is_a_fact_and_a_problem() -> None:
    with counting() as (server, ledger):
        secret = server.route("/secret", allowed=False)
        get(f"{server.root_url}/%73ecret")
        (received,) = ledger.of(HttpReceived)
        assert (received.route, received.allowed, secret.received) == ("/secret", False, 1)
        assert server.problems() == [f"request h1 was not allowed: GET {server.root_url}/%73ecret"]


def test_nobody_may_connect_to_an_origin_that_is_forbidden() -> None:
    with counting() as (server, ledger):
        take = server.other_origin.route("/take")
        server.other_origin.forbid()
        with Client(server.other_origin):
            pass
        get(take.url)
        server.settle()
        assert [fact.allowed for fact in ledger.of(ConnectionAccepted)] == [False, False]
        assert [fact.allowed for fact in ledger.of(HttpReceived)] == [False]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "a TLS handshake; URLs here start with http://"),
        (b"\x00\x01\x02\x03", "illegal request line"),
        (b"SSH-2.0-x\r\n\r\n", "illegal request line: bytearray(b'SSH-2.0-x')"),
    ],
)
def test_what_is_no_http_is_a_fact_and_a_problem(sent: bytes, why: str) -> None:
    with counting() as (server, ledger), Client(server) as client:
        client.send(sent).rest()
        _, strange = ledger.of(ConnectionAccepted)
        assert (strange.allowed, strange.first_bytes, strange.origin) == (False, sent[:16].hex(), "first")
        assert strange.address == f"127.0.0.1:{server.port}"
        assert server.problems() == [f"{server.root_url} was sent what is no HTTP request: {why}"]


# -- where it is ------------------------------------------------------------------------------------


def test_an_origin_has_only_its_own_routes_and_those_of_all_origins() -> None:
    with counting() as (server, _):
        here, there = server.route("/x", body="here"), server.other_origin.route("/x", body="there")
        both = server.add(Route(path="/both"))
        assert [get(place.url).text for place in (here, there)] == ["here", "there"]
        get(f"{server.root_url}/both")
        get(f"{server.other_origin.root_url}/both")
        assert (here.received, there.received, both.received) == (1, 1, 2)
        assert server.problems() == []


def test_it_is_there_under_another_name_and_on_ipv6() -> None:
    with counting() as (server, ledger):
        route = server.route("/x")
        get(f"{server.other_name.root_url}/x")
        get(f"http://127.1:{server.port}/x")
        statuses = [route.received]
        if has_ipv6():
            get(f"http://[::1]:{server.port}/x")
            statuses.append(route.received)
        assert statuses in ([2], [2, 3])
        places = [(fact.origin, fact.url) for fact in ledger.of(HttpReceived)]
    assert places[0][0] == "name"
    assert places[1:] in ([], [("first", f"http://127.0.0.1:{server.port}/x")]) or places[2] == (
        "first",
        f"http://[::1]:{server.port}/x",
    )


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_addresses_are_filled_in() -> None:
    with counting() as (server, _):
        text = "{first} {name} {other} {port} {other_port} {nonce}"
        port, other = server.port, server.other_origin.port
        assert server.resolve("/x") == f"http://127.0.0.1:{port}/x"
        roots = f"http://127.0.0.1:{port} http://localhost:{port} http://127.0.0.1:{other}"
        assert server.resolve(text) == f"{roots} {port} {other} {{nonce}}"


def test_another_origin_is_opened_only_when_it_is_asked_for() -> None:
    with counting() as (server, _):
        server.resolve("{first}")
        assert set(server._origins) == {"first"}
        assert server.other_origin.port != server.port
        assert server.other_origin is server.other_origin


def test_a_server_that_cannot_listen_raises_at_once() -> None:
    engine = Engine()
    engine.stop()
    with pytest.raises(AgentguardError, match="the engine has been stopped"):
        counting_on(engine)


def counting_on(engine: Engine) -> CountingServer:
    from pytest_agentguard import Ledger

    return CountingServer(Ledger(), engine=engine)


def test_a_closed_server_takes_no_connection_and_has_no_more_origins() -> None:
    with counting() as (server, _):
        server.other_origin.route("/x")
    for port in (server.port, server._origins["other"].port):
        with socket.socket() as late, pytest.raises(ConnectionRefusedError):
            late.connect(("127.0.0.1", port))
    with pytest.raises(UsageError, match="closed"):
        _ = server.tls_origin
    server.close()


# -- bounds, and its own failures -------------------------------------------------------------------


def test_beyond_its_ceiling_it_answers_503_and_records_no_more() -> None:
    with counting(ceiling=2) as (server, ledger):
        route = server.route("/x")
        assert [get(route.url).status_code for _ in range(4)] == [200, 200, 503, 503]
        assert [fact.limit for fact in ledger.of(CeilingReached)] == [2]
        assert (route.received, server.problems()) == (2, ["more requests than limit=2"])


def test_a_failure_of_its_own_is_a_fact_and_no_answer_of_a_route() -> None:
    with counting() as (server, ledger):
        route = server.route("/x")
        server._tally.nonce = _broken  # type: ignore[method-assign]
        assert get(route.url).status_code == 500
        assert [fact.error for fact in ledger.of(WitnessFailed)] == ["RuntimeError: out of nonces"]
        assert server.problems() == ["counting server failed: RuntimeError: out of nonces"]


def _broken() -> str:
    raise RuntimeError("out of nonces")


# -- redirects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("to", "elsewhere"),
    [
        ("/b", False),
        ("{first}/b", False),
        ("{other}/b", True),
        ("{name}/b", True),
        ("https://127.0.0.1:{port}/b", True),
    ],
)
def test_a_redirect_is_offered_as_it_is_written(status: int, to: str, elsewhere: bool) -> None:
    with counting() as (server, ledger):
        answer = get(server.route("/a", redirect=to, status=status).url)
        (offered,) = ledger.of(RedirectOffered)
        location = to if to == "/b" else server.resolve(to)
        assert (answer.status_code, answer.headers["location"], answer.content) == (status, location, b"")
        assert offered.location == (server.root_url + "/b" if to == "/b" else location)
        assert (offered.request, offered.status, offered.elsewhere) == ("h1", status, elsewhere)
        server.settle()
        assert [fact.failed for fact in ledger.of(HttpAnswered)] == [False]


def test_redirects_make_chains_and_loops() -> None:
    with counting() as (server, _):
        end = server.route("/end")
        server.route("/2", redirect="/end", status=303)
        start = server.route("/1", redirect="{other}/2")
        server.other_origin.route("/2", redirect="{first}/2")
        loop = server.route("/loop", redirect="/loop")
        assert get(start.url, follow_redirects=True).status_code == 200
        assert [request.route for request in server.requests] == ["/1", "/2", "/2", "/end"]
        with pytest.raises(httpx.TooManyRedirects):
            get(loop.url, follow_redirects=True)
        assert (end.received, loop.received) == (1, 21)


# -- how it looks -----------------------------------------------------------------------------------


def test_names_say_what_they_are() -> None:
    with counting() as (server, _):
        route = server.route("/x", effect=True)
        get(route.url)
        server.settle()
        assert repr(server) == f"<CountingServer {server.root_url} received=1>"
        assert repr(route) == f"<Served {route.url} received=1 effects=1>"
        assert repr(server.other_origin) == f"<Origin {server.other_origin.root_url} received=0>"
        assert repr(server.other_name) == f"<HostName http://localhost:{server.port} received=0>"
        assert route.wait(1, LIMIT)
        assert not route.wait(2, 0.0)
