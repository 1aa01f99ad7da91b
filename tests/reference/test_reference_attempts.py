"""The reference tries a turn again before a reply has begun, counted, and never after."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from reference_kit import ANSWER, BOUND, CALL, FINAL, WAYS, run_async, stage

from pytest_agentguard import Limits, Reply
from pytest_agentguard.events import StreamReleased
from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.retrying import Attempts
from pytest_agentguard.reference.threads import ThreadAgent

each_way = pytest.mark.parametrize("way", WAYS)


class Soon(Attempts):
    """Attempts with pauses that nobody notices."""

    first_wait = 0.001


class QuickAgent(Agent):
    attempts = Soon


class QuickThreadAgent(ThreadAgent):
    attempts = Soon


def run(way, job):
    return QuickThreadAgent(job).run() if way == "threads" else run_async(QuickAgent(job).run, backend=way)


def keys(on):
    return [request.headers.get("idempotency-key") for request in on.endpoint.requests]


@each_way
def test_without_a_declared_budget_a_failure_is_the_end(way):
    with stage("openai-chat", "stream", [Reply().status(503)]) as on:
        with pytest.raises(errors.Overloaded):
            run(way, on.job())

        assert on.asked == 1


@each_way
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_what_may_pass_is_tried_again(way, status):
    with stage("anthropic", "stream", [Reply().status(status), CALL, ANSWER]) as on:
        assert run(way, on.job(attempts=2)) == FINAL

        assert on.asked == 3
        assert len(on.ran) == 1


@each_way
@pytest.mark.requirement("D04")
def test_every_turn_has_a_budget_and_failures_spend_it(way):
    busy = Reply().status(503)
    with stage("openai-chat", "block", [busy, CALL, busy.times(3)]) as on:
        with pytest.raises(errors.Overloaded):
            run(way, on.job(attempts=2))

        assert [request.turn for request in on.endpoint.requests] == [1, 1, 2, 2]
        on.endpoint.requests.wait(4, BOUND)


@each_way
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_a_refusal_is_not_asked_again(way, status):
    with stage("openai-chat", "stream", [Reply().status(status)]) as on:
        with pytest.raises(errors.ProviderError):
            run(way, on.job(attempts=3))

        assert on.asked == 1


@each_way
@pytest.mark.parametrize(
    "reply",
    [
        CALL.cut(),
        CALL.reset(),
        CALL.protocol_cut(),
        CALL.error("overloaded"),
        CALL.finish("length"),
        Reply().html(),
        Reply().nothing(),
        Reply().json_error("overloaded"),
        Reply().redirect("http://127.0.0.1:9/"),
    ],
    ids=lambda reply: reply.fault or reply.label,
)
def test_nothing_is_tried_again_once_a_reply_has_begun(way, reply):
    with stage("openai-chat", "stream", [reply]) as on:
        with pytest.raises(errors.AgentError):
            run(way, on.job(attempts=3))

        assert on.asked == 1
        assert on.ran == []


@each_way
def test_nothing_is_tried_again_within_a_stalled_reply(way):
    with stage("openai-chat", "stream", [CALL.stall()]) as on:
        with pytest.raises(errors.TimedOut):
            run(way, on.job(attempts=3, idle_timeout=0.3))

        assert on.asked == 1


@each_way
def test_timeouts_before_the_head_are_counted(way):
    with stage("openai-chat", "stream", [CALL.hold().times(3)]) as on:
        with pytest.raises(errors.RequestTimeout):
            run(way, on.job(attempts=2, request_timeout=0.3, idle_timeout=BOUND))
        on.endpoint.settle()

        assert on.asked == 2
        assert on.ledger.of(StreamReleased, by="limit") == ()


@each_way
def test_the_deadline_ends_timeouts_that_each_restart(way):
    with stage("openai-chat", "stream", [CALL.hold().times(50)]) as on:
        with pytest.raises(errors.TimedOut):
            run(way, on.job(attempts=50, request_timeout=0.1, deadline=0.5))
        on.endpoint.settle()

        assert on.ledger.of(StreamReleased, by="limit") == ()


@each_way
def test_connections_that_are_dropped_before_the_head_are_counted(way):
    with dropping() as (url, accepted):
        endpoint = SimpleNamespace(dialect="openai-chat", base_url=url, api_key="none", model="none")
        limits = Limits(attempts=3, deadline=BOUND)
        job = SimpleNamespace(prompt="", endpoint=endpoint, mode="stream", tools=(), limits=limits)
        with pytest.raises(errors.ConnectionLost):
            run(way, job)

        assert len(accepted) == 3


@each_way
def test_a_pause_beyond_the_deadline_is_not_begun(way):
    with stage("openai-chat", "stream", [Reply().status(429, retry_after=3600)]) as on:
        with pytest.raises(errors.RateLimited):
            run(way, on.job(attempts=3))

        assert on.asked == 1


@each_way
@pytest.mark.requirement("B18")
def test_the_key_stays_within_a_turn_and_changes_with_it(way):
    busy = Reply().status(503)
    with stage("anthropic", "stream", [busy, CALL, busy, ANSWER]) as on:
        assert run(way, on.job(attempts=2)) == FINAL

        first, again, second, last = keys(on)
        assert first == again != second == last


@contextmanager
def dropping():
    """A server that reads a request and closes the connection; each is counted."""
    accepted = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(BOUND)

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(BOUND)
                    connection.recv(65536)
                    accepted.append(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", accepted
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(BOUND)
