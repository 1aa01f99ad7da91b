"""The origin of a counting server that speaks TLS."""

from __future__ import annotations

import os
import ssl
import sys

import httpx
import pytest
from counting_kit import LIMIT, counting
from endpoint_kit import Client

from pytest_agentguard import UsageError
from pytest_agentguard._witnesses import tls
from pytest_agentguard.events import (
    ClientClosed,
    ConnectionAccepted,
    HttpAnswered,
    HttpReceived,
    RedirectOffered,
)

MIB = 1024 * 1024


def secure(ca_file: str) -> httpx.Client:
    """A client that trusts this authority and no other."""
    context = ssl.create_default_context(cafile=ca_file)
    return httpx.Client(verify=context, trust_env=False, timeout=LIMIT)


def test_a_client_that_trusts_the_authority_is_answered_by_every_name() -> None:
    with counting() as (server, ledger), secure(server.tls_origin.ca_file) as client:
        route = server.tls_origin.route("/x", body="in secret")
        urls = [route.url, f"https://localhost:{server.tls_origin.port}/x"]
        assert [client.get(url).text for url in urls] == ["in secret"] * 2
        assert server.tls_origin.root_url == f"https://127.0.0.1:{server.tls_origin.port}"
        origins = {(fact.origin, fact.route, fact.allowed) for fact in ledger.of(HttpReceived)}
    assert origins == {("tls", "/x", True)}
    assert server.problems() == []


def test_bodies_of_any_size_go_both_ways() -> None:
    with counting() as (server, ledger), secure(server.tls_origin.ca_file) as client:
        sent = client.post(server.tls_origin.route("/in").url, content=b"a" * 3 * MIB)
        big = client.get(server.tls_origin.route("/out", oversize=3 * MIB).url)
        server.settle()
        assert [fact.body_bytes for fact in ledger.of(HttpReceived)] == [3 * MIB, 0]
        assert [fact.end for fact in ledger.of(HttpAnswered)] == ["clean", "clean"]
    assert (sent.status_code, len(big.content)) == (200, 3 * MIB)


def test_a_client_that_does_not_trust_it_sends_no_request() -> None:
    with counting() as (server, ledger):
        route = server.tls_origin.route("/x")
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(route.url, trust_env=False, timeout=LIMIT)
        server.settle()
        assert route.received == 0
        assert [fact.origin for fact in ledger.of(ConnectionAccepted)] == ["tls"]


@pytest.mark.parametrize("sent", [b"GET /x?token=abc HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00"])
def test_a_client_that_speaks_no_tls_is_a_fact_and_a_problem(sent: bytes) -> None:
    with counting() as (server, ledger):
        route, root = server.tls_origin.route("/x"), server.tls_origin.root_url
        with Client(server.tls_origin) as client:
            client.send(sent)
            try:
                assert client.rest() == b""
            except ConnectionResetError:
                pass
        server.settle()
        _, strange = ledger.of(ConnectionAccepted)
        assert (strange.allowed, strange.first_bytes, strange.origin) == (False, sent[:16].hex(), "tls")
        why = "no TLS handshake; URLs here start with https://"
        assert server.problems() == [f"{root} was sent what is no HTTP request: {why}"]
        assert route.received == 0


@pytest.mark.parametrize("options", [{"drop": True}, {"partial": 3, "body": "abcdef"}, {"endless": True}])
def test_ends_are_what_they_are_without_tls(options: dict[str, object]) -> None:
    with counting() as (server, ledger), secure(server.tls_origin.ca_file) as client:
        route = server.tls_origin.route("/x", **options)
        if "endless" in options:
            with client.stream("GET", route.url) as answer:
                next(answer.iter_raw())
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                client.get(route.url)
        assert server.route("/y").wait(0, 0)
        if "endless" in options:
            assert route.closed.wait(LIMIT)
        server.settle()
        (receipt,) = ledger.of(HttpAnswered)
    assert receipt.end == {"drop": "dropped", "partial": "cut", "endless": "client-left"}[next(iter(options))]


def test_a_held_request_is_released_and_a_client_that_leaves_is_seen() -> None:
    with counting() as (server, ledger), secure(server.tls_origin.ca_file) as client:
        held = server.tls_origin.route("/x", hold=True, effect=True)
        with pytest.raises(httpx.ReadTimeout):
            client.get(held.url, timeout=0.1)
        assert held.closed.wait(LIMIT)
        held.release()
        assert (held.effects, len(ledger.of(ClientClosed))) == (1, 1)


def test_a_redirect_to_another_scheme_leads_elsewhere() -> None:
    with counting() as (server, ledger), secure(server.tls_origin.ca_file) as client:
        plain = server.route("/plain")
        start = server.tls_origin.route("/x", redirect=plain.url)
        client.get(start.url)
        (offered,) = ledger.of(RedirectOffered)
    assert (offered.location, offered.elsewhere) == (plain.url, True)


def test_the_file_of_the_authority_goes_with_the_server() -> None:
    with counting() as (server, _):
        file = server.tls_origin.ca_file
        assert os.path.isfile(file)
    assert not os.path.exists(file)


def test_without_trustme_it_is_wrong_use_and_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    tls.authority.cache_clear()
    with counting() as (server, _):
        with pytest.raises(UsageError, match=r"makes its certificate with trustme, .*: pip install trustme"):
            _ = server.tls_origin
        assert set(server._origins) == {"first"}
