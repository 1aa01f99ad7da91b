"""Clients that send what no client should: each leaves its fact, and none breaks the server."""

from __future__ import annotations

import socket
import struct

import pytest
from counting_kit import asked, counting
from endpoint_kit import Client, serving

from pytest_agentguard._core import limits
from pytest_agentguard.events import RedirectOffered, RequestReceived, WitnessFailed


@pytest.mark.parametrize("target", ["http://[x/a", "http://[x/a?key=1", "[x", "*"])
def test_a_target_that_is_no_url_is_a_request_without_a_route(target: str) -> None:
    with counting() as (server, ledger), Client(server) as client:
        server.route("/a")
        assert client.send(asked(target)).answer().status == 404
        assert (server.received, ledger.of(WitnessFailed)) == (1, ())


@pytest.mark.parametrize(("path", "host"), [("/a", "["), ("/a", "a]b"), ("[x", "x"), ("http://[x/a", "x")])
def test_a_redirect_for_a_host_or_target_that_is_none_is_offered_as_seen_from_here(
    path: str, host: str
) -> None:
    with counting() as (server, ledger), Client(server) as client:
        server.route("*", redirect="/b")
        assert client.send(asked(path, host=host)).answer().status == 302
        assert ledger.of(RedirectOffered)[0].location.endswith("/b")
        assert ledger.of(WitnessFailed) == ()


def test_an_empty_line_before_a_request_is_no_part_of_it() -> None:
    with counting() as (server, _), Client(server) as client:
        server.route("/x")
        for sent in (b"\r\n" + asked("/x"), asked("/x")):
            assert client.send(sent).answer().status == 200
        client.send(b"\r")
        server.settle()
        assert client.send(b"\n" + asked("/x")).answer().status == 200
        assert (server.received, server.problems()) == (3, [])


@pytest.mark.parametrize("origin", ["other", "tls"])
def test_beyond_the_bound_of_connections_a_client_is_turned_away_whatever_it_does(
    origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 0)
    with counting() as (server, ledger):
        place = server.tls_origin if origin == "tls" else server.other_origin
        for linger in (False, True):
            with Client(place) as client:
                if linger:
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    assert client.rest().startswith(b"HTTP/1.1 503" if origin == "other" else b"")
            server.settle()
        assert server.problems() == ["more open connections than limit=0"]
        assert ledger.of(WitnessFailed) == ()


@pytest.mark.parametrize("target", ["http://[x/v1/tiny", "http://[x/a?key=1"])
def test_a_target_that_is_no_url_is_a_request_to_the_endpoint_too(target: str) -> None:
    with serving() as (endpoint, ledger), Client(endpoint) as client:
        assert client.send(asked(target)).answer().status == 404
        assert len(ledger.of(RequestReceived)) == 1
        assert ledger.of(WitnessFailed) == ()
