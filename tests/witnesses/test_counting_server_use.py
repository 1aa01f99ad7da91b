"""Wrong use of the counting server is said at once, not when a client asks."""

from __future__ import annotations

import math
import os

import pytest
from counting_kit import counting, get

from pytest_agentguard import Route, UsageError


@pytest.mark.parametrize(
    ("path", "options", "problem"),
    [
        ("orders", {}, "a route has a path from / on, without a query, not 'orders'"),
        ("/x?a=1", {}, "a route has a path from / on, without a query, not '/x?a=1'"),
        ("/x", {"drop": True, "hold": True}, "route /x does one of drop and hold, not several; see then="),
        ("/x", {"limit": 3}, "route /x: limit= is how long an answer is held; it goes with hold=True"),
        ("/x", {"status": 99}, "route /x: a status is 200 to 599, not 99"),
        ("/x", {"redirect": "/y", "status": 500}, "route /x: a redirect has one of the statuses"),
        ("/x", {"slow": math.nan}, "route /x: seconds is a time from 0 to 86400 s, not nan"),
        ("/x", {"hold": True, "limit": math.inf}, "route /x: seconds is a time from 0 to 86400 s, not inf"),
        ("/x", {"slow": 10**7}, "route /x: seconds is a time from 0 to 86400 s, not 10000000"),
        ("/x", {"slow": -1}, "route /x: seconds is a time from 0 to 86400 s, not -1"),
        ("/x", {"status": "200"}, "route /x: status is a whole number, not '200'"),
        ("/x", {"status": 503.5}, "route /x: status is a whole number, not 503.5"),
        ("/x", {"oversize": 1.5}, "route /x: size is a whole number, not 1.5"),
        ("/x", {"times": True}, "route /x: times is a whole number, not True"),
        ("/x", {"partial": 10**9}, "route /x: a body of over 8388608 bytes is for oversize="),
        ("/x", {"hold": True, "partial": 5, "status": 204}, "route /x is held in its body; a status 204 has"),
        ("/x", {"body": "\ud800"}, "route /x: a body is text that UTF-8 can hold, not '\\ud800'"),
        ("/x", {"body": b"x"}, "route /x: a body is text, or what JSON can hold: Object of type bytes"),
        ("/x\r\n", {}, "route '/x\\r\\n': path is text in one line, not '/x\\r\\n'"),
        ("/x\0", {}, "route '/x\\x00': path is text in one line, not '/x\\x00'"),
        ("/x", {"redirect": "/y\r\nX: 1"}, "route '/x': to is text in one line, not '/y\\r\\nX: 1'"),
        ("/x", {"redirect": "http://[::1/y"}, "route /x redirects to 'http://[::1/y': Invalid IPv6 URL"),
        ("/x", {"redirect": "/\u2603"}, "route /x: a header is Latin-1, which '/\u2603' is not; see quote()"),
        ("/x", {"retry_after": "1\nX: y"}, "route '/x': retry_after is text in one line, not '1\\nX: y'"),
        ("/x", {"then": "x"}, "route /x: then= takes a Route, not 'x'"),
        ("/x", {"times": -1}, "route /x: times and sizes are 0 or more"),
        ("/x", {"then": Route(path="/x", does="fall")}, "unknown behaviour of a route 'fall'"),
        ("/x", {"then": Route(path="/x", does="fail")}, "route /x fails with a status from 400, not 200"),
        ("/x", {"then": Route(path="/x", does="redirect")}, "route /x redirects and does not say where to"),
    ],
)  # fmt: skip
def test_a_route_that_cannot_be_is_wrong_use(path: str, options: dict[str, object], problem: str) -> None:
    with counting() as (server, _), pytest.raises(UsageError) as caught:
        server.route(path, **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(problem)


def test_two_routes_for_one_path_are_wrong_use() -> None:
    with counting() as (server, _):
        server.route("/x")
        with pytest.raises(
            UsageError, match="there is a route /x already; then= says what its later requests get"
        ):
            server.route("/x")


def test_a_path_may_have_any_letters() -> None:
    with counting() as (server, _):
        server.route("/café")
        assert get(f"{server.root_url}/caf%C3%A9").status_code == 200


def test_a_server_that_has_been_closed_takes_nothing_new() -> None:
    with counting() as (server, _):
        other = server.other_origin
        server.close()
        for use in (
            lambda: server.route("/x"),
            lambda: other.route("/x"),
            lambda: server.add(Route(path="/x")),
            server.barrier_url,
            lambda: server.tls_origin,
        ):
            with pytest.raises(UsageError, match="a counting server that has been closed"):
                use()


def test_what_is_closed_in_a_forked_child_stays_open_in_its_parent() -> None:
    with counting() as (server, _):
        file, route = server.tls_origin.ca_file, server.route("/x")
        child = os.fork()
        if not child:
            server.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert os.path.isfile(file)
        assert get(route.url).status_code == 200
    assert not os.path.exists(os.path.dirname(file))
