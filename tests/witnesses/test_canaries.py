"""Canaries are found however they come, and are in nothing that is recorded."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from counting_kit import counting, post

from pytest_agentguard import UsageError
from pytest_agentguard.events import HttpReceived

VALUE = 'Grüß "Gott" \U0001f600 50%/1+1\nagain'


@pytest.mark.parametrize(
    "body",
    [
        VALUE.encode(),
        json.dumps([VALUE]).encode(),
        json.dumps([VALUE], ensure_ascii=False).encode(),
        json.dumps([json.dumps([VALUE])]).encode(),
        json.dumps([VALUE]).replace("/", "\\/").encode(),
        quote(VALUE).encode(),
        f"q={quote_plus(VALUE)}".encode(),
        quote(json.dumps([VALUE])).encode(),
    ],
    ids=["plain", "JSON", "JSON in UTF-8", "twice", "slashes", "percent", "form", "JSON in percent"],
)
def test_a_canary_is_found_however_a_client_encodes_it(body: bytes) -> None:
    with counting() as (server, ledger):
        server.canary("prompt", VALUE)
        post(server.route("/x").url, content=body)
        assert ledger.of(HttpReceived)[0].canaries == ("prompt in body",)


@pytest.mark.parametrize("value", ["s3cret/ä".encode(), "s3cret/ä".encode("latin-1"), b"s3cret%2F%C3%A4"])
def test_a_canary_is_found_in_a_header_and_in_a_body_of_any_charset(value: bytes) -> None:
    with counting() as (server, ledger):
        server.canary("token", "s3cret/ä")
        post(server.route("/x").url, content=value, headers=[(b"X-Note", value)])
        assert ledger.of(HttpReceived)[0].canaries == ("token in header x-note", "token in body")


def test_what_is_recorded_has_no_canary_in_any_form() -> None:
    with counting() as (server, ledger):
        server.canary("token", 'a/"b"')
        post(server.route("/x").url + "?q=a%2F%22b%22", json='a/"b"')
        (received,) = ledger.of(HttpReceived)
    assert (received.url.rpartition("?")[2], received.body) == ("q={token}", '"{token}"')


@pytest.mark.parametrize("value", [b"x", 5, None])
def test_a_canary_that_is_no_string_is_wrong_use(value: Any) -> None:
    with counting() as (server, _), pytest.raises(UsageError, match="a canary has a name and a value that"):
        server.canary("token", value)
