"""Budgets judged in a plain test: real sockets, no runner, limits from the test itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from pytest_agentguard import Limits, Outcome, Reply, catalogue, judge

HELD, VIOLATED, NOT_EXERCISED = Outcome.HELD, Outcome.VIOLATED, Outcome.NOT_EXERCISED
BUDGET = {id: rule for id, rule in catalogue.invariants().items() if rule.family == "budget"}


def alarms(agentguard: Any) -> list[str]:
    """The rules of the family that say something against what was seen."""
    verdicts = [judge(agentguard.ledger, rule) for rule in BUDGET.values()]
    return [verdict.invariant for verdict in verdicts if verdict.outcome not in (HELD, NOT_EXERCISED)]


def outcome(agentguard: Any, id: str) -> Outcome:
    return judge(agentguard.ledger, BUDGET[id]).outcome


@contextmanager
def running(agentguard: Any, **limits: int) -> Iterator[None]:
    """A run that returns nothing; whether that is a success is for other rules."""
    with agentguard.run(limits=Limits(**limits)) as run:
        yield
        run.answer("")


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=5.0) as client:
        yield client


def get(client: httpx.Client, url: str, attempts: int, **options: Any) -> None:
    """The wrapper under test: so many attempts while the server fails."""
    for _ in range(attempts):
        with suppress(httpx.TransportError):
            if client.get(url, **options).status_code < 400:
                return


def ask(client: httpx.Client, endpoint: Any, said: str = "hello") -> httpx.Response:
    url = f"{endpoint.base_url('openai-chat')}/chat/completions"
    return client.post(url, json={"model": "m", "messages": [{"role": "user", "content": said}]})


ROUTES: dict[str, Callable[[Any], Any]] = {
    "status": lambda server: server.route("/one", status=503),
    "drop": lambda server: server.route("/one", drop=True),
    "partial": lambda server: server.route("/one", partial=3),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("attempts", "expected"), [(2, HELD), (3, VIOLATED)])
def test_a_retry_wrapper_is_counted_at_the_server(
    counting_server, agentguard, client, route, attempts, expected
):
    served = ROUTES[route](counting_server)

    with running(agentguard, attempts=2):
        get(client, served.url, attempts)

    assert served.received == attempts
    assert outcome(agentguard, "budget-spent-on-failure") is expected
    assert outcome(agentguard, "no-request-past-budget") is expected


def test_a_timeout_is_an_attempt_that_failed(counting_server, agentguard, client):
    held = counting_server.route("/one", hold=True)

    with running(agentguard, attempts=1):
        get(client, held.url, 2, timeout=0.2)
        assert held.closed.wait(5)

    assert outcome(agentguard, "budget-spent-on-failure") is VIOLATED


def test_separate_runs_have_separate_budgets(counting_server, agentguard, client):
    served = counting_server.route("/one", status=503)

    for _ in range(3):
        with running(agentguard, attempts=2):
            get(client, served.url, 2)

    assert alarms(agentguard) == []


@pytest.mark.parametrize(("workers", "expected"), [(2, HELD), (3, VIOLATED)])
def test_workers_share_one_budget(counting_server, agentguard, client, workers, expected):
    served = counting_server.route("/one", hold=True)

    def work(_: int) -> int:
        return client.get(served.url).status_code

    with running(agentguard, attempts=2), ThreadPoolExecutor(workers) as pool:
        answers = pool.map(work, range(workers))
        assert served.wait(workers, 5)
        served.release()
        assert list(answers) == [200] * workers

    assert outcome(agentguard, "budget-shared") is expected


def test_retries_within_the_budget_of_each_turn_are_silent(sse_endpoint, agentguard, client):
    failed = Reply().status(503).times(2)
    sse_endpoint.play(failed, Reply().text("one"), failed, Reply().text("two"))

    with running(agentguard, attempts=3):
        for _ in range(6):
            ask(client, sse_endpoint)

    assert alarms(agentguard) == []
    assert outcome(agentguard, "budget-spent-on-failure") is HELD


def test_another_body_is_another_attempt_at_the_same_turn(sse_endpoint, agentguard, client):
    sse_endpoint.play(Reply().status(503).times(3))

    with running(agentguard, attempts=2):
        for said in ("hello", "hello again", "please"):
            ask(client, sse_endpoint, said)

    assert outcome(agentguard, "no-request-past-budget") is VIOLATED


@pytest.mark.parametrize(("wait", "expected"), [(0.06, HELD), (30, VIOLATED)])
def test_the_wait_that_was_asked_for_is_measured(sse_endpoint, agentguard, client, wait, expected):
    sse_endpoint.play(Reply().status(429, retry_after=wait), Reply().text("done"))

    with running(agentguard):
        ask(client, sse_endpoint)
        threading.Event().wait(0.1)
        ask(client, sse_endpoint)

    assert outcome(agentguard, "retry-after-respected") is expected


def test_another_request_need_not_wait(sse_endpoint, agentguard, client):
    sse_endpoint.play(Reply().status(429, retry_after=30), Reply().text("done"))

    with running(agentguard):
        ask(client, sse_endpoint)
        ask(client, sse_endpoint, "to another model")

    assert alarms(agentguard) == []


@pytest.mark.parametrize(("said", "expected"), [("hello", VIOLATED), ("something else", HELD)])
def test_a_refused_request_is_changed_or_given_up(sse_endpoint, agentguard, client, said, expected):
    sse_endpoint.play(Reply().status(400), Reply().text("done"))

    with running(agentguard):
        ask(client, sse_endpoint)
        ask(client, sse_endpoint, said)

    assert outcome(agentguard, "no-retry-on-refusal") is expected


@pytest.mark.parametrize(("keys", "expected"), [(("a", "a"), HELD), (("a", "b"), VIOLATED)])
def test_a_key_stays_the_same_on_a_retry(counting_server, agentguard, client, keys, expected):
    orders = counting_server.route("/orders", status=503)

    with running(agentguard):
        for key in keys:
            client.post(orders.url, json={"order": 1}, headers={"Idempotency-Key": key})

    assert outcome(agentguard, "idempotency-key-stable") is expected


@pytest.mark.parametrize(("key", "expected"), [({}, VIOLATED), ({"Idempotency-Key": "a"}, HELD)])
def test_an_order_whose_answer_was_lost_needs_a_key_to_be_sent_again(
    counting_server, agentguard, client, key, expected
):
    orders = counting_server.route("/orders", drop=True, effect=True)

    with running(agentguard):
        for _ in range(2):
            with suppress(httpx.TransportError):
                client.post(orders.url, json={"order": 1}, headers=key)

    assert orders.effects == 2
    assert outcome(agentguard, "no-replay-after-effect") is expected
