"""The fixture ``counting_server``, used as somebody else's suite uses it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any

import httpcore  # noqa: F401 - loaded once, as in conftest: httpx imports it with the first request
import httpx
import pytest
import trio
from plugin.conftest import Suite

from pytest_agentguard.events import (
    EffectDone,
    HttpReceived,
    RequestReceived,
    RunStarted,
    StopRequested,
    StreamReleased,
)

CLIENT: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 20}


class GaveUp(Exception):
    """Every attempt has failed."""


class Refused(Exception):
    """The tool does not go there."""


def fetch_with_retries(url: str, attempts: int = 3) -> str:
    """A retry wrapper as people write it."""
    for _ in range(attempts):
        try:
            answer = httpx.get(url, **CLIENT)
        except httpx.TransportError:
            continue
        if answer.status_code < 500:
            return answer.text
    raise GaveUp(url)


def http_tool(url: str, token: str) -> str:
    """An HTTP tool that follows no redirect."""
    answer = httpx.get(url, headers={"Authorization": f"Bearer {token}"}, **CLIENT)
    if answer.is_redirect:
        raise Refused(answer.headers["location"])
    return answer.text


# -- as the pages say ---------------------------------------------------------------------------------


@pytest.mark.agentguard("budget-spent-on-failure", "no-request-past-budget", attempts=3)
def test_my_retry_wrapper(counting_server: Any) -> None:
    orders = counting_server.route("/orders", status=503)
    with pytest.raises(GaveUp):
        fetch_with_retries(orders.url)
    assert orders.received == 3


@pytest.mark.agentguard("redirect-not-followed", "no-credentials-elsewhere")
def test_my_http_tool_stays_on_its_host(counting_server: Any) -> None:
    elsewhere = counting_server.other_origin.route("/take")
    start = counting_server.route("/start", redirect=elsewhere.url, status=307)
    with pytest.raises(Refused):
        http_tool(start.url, token="canary")
    assert elsewhere.received == 0


async def test_a_cancel_is_no_rollback(counting_server: Any, agentguard: Any) -> None:
    pay = counting_server.route("/pay", hold=True, effect=True)
    async with httpx.AsyncClient(**CLIENT) as client:
        task = asyncio.create_task(client.post(pay.url))
        await pay.arrived
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await pay.closed
    assert pay.effects == 0
    pay.release()
    assert pay.effects == len(agentguard.ledger.of(EffectDone)) == 1


def test_the_same_under_trio(counting_server: Any) -> None:
    pay = counting_server.route("/pay", hold=True, effect=True)

    async def cancelled() -> None:
        async with httpx.AsyncClient(**CLIENT) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.post, pay.url)
            await pay.arrived
            nursery.cancel_scope.cancel()
        await pay.closed

    trio.run(cancelled)
    pay.release()
    assert pay.effects == 1


def test_threads_share_one_server_and_one_order(counting_server: Any, agentguard: Any) -> None:
    orders = counting_server.route("/orders")
    workers = [threading.Thread(target=httpx.get, args=(orders.url,), kwargs=CLIENT) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert orders.received == 8
    assert [fact.request for fact in agentguard.ledger.of(HttpReceived)] == [f"h{n}" for n in range(1, 9)]


@pytest.mark.agentguard("no-request-past-budget", attempts=3, allow_not_exercised=True)
def test_limits_of_the_marker_are_the_limits_of_the_run(counting_server: Any, agentguard: Any) -> None:
    assert counting_server.received == 0
    assert agentguard.ledger.run == agentguard.ledger.of(RunStarted)[0]
    assert agentguard.ledger.run.limits == {"attempts": 3}


def test_what_is_held_is_released_when_a_run_ends(counting_server: Any, agentguard: Any) -> None:
    held = counting_server.route("/x", hold=True)
    with agentguard.run() as run:
        client = threading.Thread(target=httpx.get, args=(held.url,), kwargs=CLIENT)
        client.start()
        assert held.arrived.wait(5)
        run.answer("")
    client.join(20)
    assert not client.is_alive()
    assert [fact.by for fact in agentguard.ledger.of(StreamReleased)] == ["run-ended"]


def test_a_server_and_an_endpoint_in_one_test_have_one_ledger(
    counting_server: Any, sse_endpoint: Any, agentguard: Any
) -> None:
    httpx.get(counting_server.route("/x").url, **CLIENT)
    httpx.get(f"{sse_endpoint.root_url}/v1/models", **CLIENT)
    agentguard.story()
    kinds = [type(fact).__name__ for fact in agentguard.ledger]
    assert kinds == ["ConnectionAccepted", "HttpReceived", "HttpAnswered", "RequestReceived"]


@pytest.mark.parametrize(("late", "outcome"), [(False, {"passed": 1}), (True, {"failed": 1})])
def test_a_call_after_the_stop_fails_the_test(suite: Suite, late: bool, outcome: dict[str, int]) -> None:
    result = suite(
        _SUITE
        + f"""
import asyncio

@pytest.mark.agentguard("no-call-after-stop")
async def test_it(counting_server, agentguard):
    held = counting_server.route("/x", hold=True)
    async def agent():
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            try:
                await client.get(held.url)
            except asyncio.CancelledError:
                if {late}:
                    held.release()
                    await client.get(held.url)
                raise
    with pytest.raises(asyncio.CancelledError), agentguard.run():
        task = asyncio.create_task(agent())
        await held.arrived
        agentguard.stop(at="request")
        task.cancel()
        await task
"""
    )
    result.assert_outcomes(**outcome)
    if late:
        result.stdout.fnmatch_lines(["*no-call-after-stop violated*", "*StopRequested * at=request*"])


def test_a_stop_comes_behind_what_was_sent_to_the_server_and_to_the_endpoint(
    counting_server: Any, sse_endpoint: Any, agentguard: Any
) -> None:
    counting_server.route("/x")
    request = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
    with contextlib.ExitStack() as open_:
        for server in (counting_server, sse_endpoint) * 10:
            client = open_.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            client.sendall(request)
        agentguard.stop()
    (stop,) = agentguard.ledger.of(StopRequested)
    before = [len(agentguard.ledger.before(stop, kind)) for kind in (HttpReceived, RequestReceived)]
    assert before == [10, 10]
    assert (stop.by, stop.at, stop.again) == ("cancel", "", False)


# -- what fails a test, and what does not ---------------------------------------------------------------


def test_a_route_that_nobody_asks_for_is_no_problem(counting_server: Any) -> None:
    assert counting_server.route("/never").received == 0


_SUITE = """
import httpx, pytest

def get(url):
    return httpx.get(url, trust_env=False, verify=False)
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("get(counting_server.root_url + '/x')", "request h1 met no route: GET */x; *: /orders, /secret"),
        ("get(counting_server.root_url + '/secret')", "request h1 was not allowed: GET */secret"),
        ("talk(b'hello' + bytes([0, 13, 10, 13, 10]))", "* was sent what is no HTTP request: *"),
    ],
)
def test_a_request_that_no_route_is_for_fails_the_test(suite: Suite, body: str, line: str) -> None:
    result = suite(
        _SUITE
        + f"""
def test_it(counting_server):
    counting_server.route("/orders")
    counting_server.route("/secret", allowed=False)
    def talk(data):
        import socket
        with socket.create_connection(("127.0.0.1", counting_server.port)) as connection:
            connection.sendall(data)
            connection.recv(100)
    {body}
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([line])


def test_a_route_for_all_other_paths_accepts_them(suite: Suite) -> None:
    result = suite(
        _SUITE
        + """
def test_it(counting_server):
    rest = counting_server.route("*", status=404)
    get(counting_server.root_url + "/order")
    assert rest.received == 1
"""
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("attempts", "outcome"), [(3, {"passed": 1}), (4, {"failed": 1})], ids=["within", "past"]
)
def test_one_request_past_the_budget_fails_the_test(
    suite: Suite, attempts: int, outcome: dict[str, int]
) -> None:
    result = suite(
        _SUITE
        + f"""
@pytest.mark.agentguard("no-request-past-budget", attempts=3)
def test_it(counting_server):
    orders = counting_server.route("/orders", status=503)
    for _ in range({attempts}):
        get(orders.url)
"""
    )
    result.assert_outcomes(**outcome)
    if attempts > 3:
        result.stdout.fnmatch_lines(["*no-request-past-budget violated*"])


def test_a_followed_redirect_and_a_key_that_went_with_it_fail_the_test(suite: Suite) -> None:
    result = suite(
        _SUITE
        + """
@pytest.mark.agentguard("redirect-not-followed", "no-credentials-elsewhere")
def test_it(counting_server):
    elsewhere = counting_server.other_origin.route("/take")
    start = counting_server.route("/start", redirect=elsewhere.url, status=307)
    key = {"X-Api-Key": "canary"}
    httpx.get(start.url, headers=key, follow_redirects=True, trust_env=False, verify=False)
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*redirect-not-followed violated*", "*no-credentials-elsewhere violated*"])


def test_a_request_that_nobody_released_does_not_hang_the_end_of_a_test(suite: Suite) -> None:
    result = suite(
        _SUITE
        + """
import threading

@pytest.fixture
def asking(counting_server):
    held = counting_server.route("/x", hold=True, effect=True, limit=60)
    worker = threading.Thread(target=get, args=(held.url,))
    worker.start()
    assert held.arrived.wait(5)
    yield held
    worker.join(5)
    assert not worker.is_alive()
    assert held.effects == 1

def test_it(asking):
    assert asking.effects == 0
"""
    )
    result.assert_outcomes(passed=1)


def test_it_says_which_option_pytest_socket_needs(suite: Suite) -> None:
    result = suite("def test_it(counting_server): pass", "--disable-socket")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E   *counting_server listens on 127.0.0.1*--allow-hosts=127.0.0.1*"])


def test_it_listens_where_pytest_socket_allows_loopback(suite: Suite) -> None:
    source = "\ndef test_it(counting_server): get(counting_server.route('/x').url)"
    result = suite(_SUITE + source, "--disable-socket", "--allow-hosts=127.0.0.1")
    result.assert_outcomes(passed=1)
