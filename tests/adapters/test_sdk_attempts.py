"""The official packages make as many requests for one turn as is known of them, and as a job declares."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from pytest_agentguard import Adapter, Job, Ledger, Limits, ModelEndpoint, Reply, catalogue
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine

AGENTS = {"openai": "openai-chat", "anthropic": "anthropic"}
ATTEMPTS = {None: 3, 1: 1, 2: 2}  # declared, and received where all fail
SECONDS = 20.0

soon = ("retry-after-ms", "1")  # both packages obey it
FAULTS = {
    "503": Reply().status(503).header(*soon),
    "429": Reply().status(429).header(*soon),
    "408": Reply().status(408).header(*soon),
    "409": Reply().status(409).header(*soon),
    "hold": Reply().hold(),
}
NEVER_AGAIN = {
    "400": Reply().status(400),
    "401": Reply().status(401),
    "404": Reply().status(404),
    "cut": Reply().text("Half of it").protocol_cut(),
}

every_agent = pytest.mark.parametrize("name", AGENTS)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    engine = Engine()
    try:
        with Endpoint(Ledger(), catalogue.dialects(), engine=engine) as found:
            yield found
    finally:
        engine.stop()


def prepared(name: str) -> Adapter:
    """The adapter, its one client made before several threads ask for it."""
    agent = catalogue.adapter(name)
    assert agent.prepare is not None
    agent.prepare()
    return agent


def ask(agent: Adapter, place: ModelEndpoint, limits: Limits, mode: str = "stream") -> BaseException | None:
    """One turn, and how it failed."""
    try:
        agent.run(Job(prompt="Answer.", endpoint=place, mode=mode, limits=limits))
    except Exception as error:
        return error
    return None


def received(endpoint: Endpoint, lane: str) -> int:
    return sum(request.lane == lane for request in endpoint.requests)


@every_agent
def test_failures_before_a_reply_are_tried_again_as_declared(name: str, endpoint: Endpoint) -> None:
    agent = prepared(name)
    cases = {f"{fault}-{attempts}": (fault, attempts) for fault in FAULTS for attempts in ATTEMPTS}

    def run(lane: str) -> BaseException | None:
        fault, attempts = cases[lane]
        endpoint.play(FAULTS[fault].times(9), lane=lane)
        limits = Limits(attempts=attempts, request_timeout=0.3 if fault == "hold" else SECONDS)
        return ask(agent, endpoint.model_endpoint(AGENTS[name], lane), limits)

    with ThreadPoolExecutor(len(cases)) as pool:
        failures = list(pool.map(run, cases))

    assert all(failures)
    assert {lane: received(endpoint, lane) for lane in cases} == {
        lane: ATTEMPTS[attempts] for lane, (_, attempts) in cases.items()
    }


@every_agent
def test_refusals_and_begun_streams_are_not_tried_again(name: str, endpoint: Endpoint) -> None:
    agent = prepared(name)
    for lane, reply in NEVER_AGAIN.items():
        endpoint.play(reply.times(9), lane=lane)
        assert ask(agent, endpoint.model_endpoint(AGENTS[name], lane), Limits(request_timeout=SECONDS))

    assert {lane: received(endpoint, lane) for lane in NEVER_AGAIN} == dict.fromkeys(NEVER_AGAIN, 1)


@every_agent
def test_a_body_cut_short_that_is_not_streamed_is_tried_again(name: str, endpoint: Endpoint) -> None:
    endpoint.play(Reply().text("Half of it").protocol_cut().times(9))
    place = endpoint.model_endpoint(AGENTS[name])

    assert ask(prepared(name), place, Limits(attempts=2, request_timeout=SECONDS), "block")
    assert endpoint.requests.count == 2


@every_agent
def test_dropped_connections_are_tried_again_as_declared(name: str) -> None:
    agent = prepared(name)

    def run(attempts: int | None) -> int:
        with dropping() as (url, read):
            place = ModelEndpoint(dialect=AGENTS[name], base_url=url, root_url=url)
            assert ask(agent, place, Limits(attempts=attempts, request_timeout=SECONDS))
            return len(read)

    with ThreadPoolExecutor(len(ATTEMPTS)) as pool:
        assert list(pool.map(run, ATTEMPTS)) == list(ATTEMPTS.values())


@contextmanager
def dropping() -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads each request and closes the connection without an answer."""
    read: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(SECONDS)
                read.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", read
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(SECONDS)
