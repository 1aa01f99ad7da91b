"""Loopback in every spelling is local, and nothing else is."""

from __future__ import annotations

import socket

import pytest

from pytest_agentguard._runner.guard import _forbidden, is_local


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "localhost",
        "LOCALHOST.",
        "api.localhost",
        b"localhost",
        "127.0.0.1",
        "127.255.0.3",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        socket.gethostname(),
    ],
)
def test_loopback_is_local(host: str | bytes | None) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host",
    [
        "api.openai.com",
        "localhost.example.com",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "8.8.8.8",
        "0x08080808",
        "fe80::1%eth0",
        "2001:db8::1",
        "::ffff:8.8.8.8",
        "<broadcast>",
        b"example.com",
    ],
)
def test_anything_else_is_not(host: str | bytes) -> None:
    assert not is_local(host)


@pytest.mark.parametrize("host", ["192.0.2.1", b"8.8.8.8", "0x08080808", "fe80::1%eth0", "2001:db8::1"])
def test_the_look_up_of_a_numeric_address_asks_nobody(host: str | bytes) -> None:
    assert _forbidden("socket.getaddrinfo", (host, 80, 0, 0, 0)) is None


@pytest.mark.parametrize("host", ["example.com", "8.8.8.8 x"])
def test_the_look_up_of_a_name_does(host: str) -> None:
    assert _forbidden("socket.getaddrinfo", (host, 80, 0, 0, 0)) == f"{host}:80"
