"""Questions about stops: what an end says of itself, and where a redirect leads."""

from __future__ import annotations

import pytest

from pytest_agentguard import Ledger, reading
from pytest_agentguard.events import HttpReceived, RedirectOffered, RunEnded, Witness


def ended(how: str, error_type: str = "", *chain: str, error: str = "") -> RunEnded:
    return RunEnded(
        witness=Witness.RUNNER, how=how, error_type=error_type, error_chain=(error_type, *chain), error=error
    )


@pytest.mark.parametrize(
    "end",
    [
        ended("cancelled"),
        ended("raised", "KeyboardInterrupt"),
        ended("raised", "SystemExit"),
        ended("raised", "framework.UserAborted"),
        ended("raised", "BaseExceptionGroup", "ValueError"),
        ended("raised", "ExceptionGroup", "framework.RunCancelled"),
        ended("failed", error="cancelled by the user"),
    ],
)
def test_an_end_that_says_it_was_cancelled_is_a_cancellation(end: RunEnded) -> None:
    assert reading.is_cancellation(end)
    assert not reading.is_timeout(end)


@pytest.mark.parametrize(
    "end",
    [
        ended("returned"),
        ended("raised", "TimeoutError", "asyncio.exceptions.CancelledError"),
        ended("raised", "app.AgentError", "asyncio.exceptions.CancelledError"),
        ended("raised", "ExceptionGroup", "ValueError"),
        ended("limited", error="deadline reached"),
    ],
)
def test_an_end_that_says_something_else_is_none(end: RunEnded) -> None:
    assert not reading.is_cancellation(end)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:80/one", ("http", "127.0.0.1:80")),
        ("HTTPS://user@Host:81?x", ("https", "host:81")),
        ("http://[::1]:80/", ("http", "[::1]:80")),
        ("/one", ("", "")),
        ("http://[broken", ("http", "[broken")),
    ],
)
def test_an_origin_is_scheme_and_host_with_port(url: str, place: tuple[str, str]) -> None:
    assert reading.origin(url) == place


def test_a_request_under_another_host_name_is_at_another_origin() -> None:
    offer = RedirectOffered(
        witness=Witness.COUNTING_SERVER,
        request="h1",
        status=302,
        location="http://localhost:80/a",
        elsewhere=True,
    )
    near, far = (
        HttpReceived(witness=Witness.COUNTING_SERVER, request=name, url="http://127.0.0.1:80/a", host=host)
        for name, host in (("h2", "127.0.0.1:80"), ("h3", "localhost:80"))
    )
    ledger = Ledger([offer, near, far])

    assert [request.request for request in reading.arrived_elsewhere(ledger, offer)] == ["h3"]
    assert [request.request for request in reading.arrived_by(ledger, offer)] == ["h3"]
