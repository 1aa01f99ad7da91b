"""Questions about attempts, on ledgers written down by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_agentguard import Ledger, Reply, catalogue, reading
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard.events import (
    ClientClosed,
    Event,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RequestUnmatched,
    RunEnded,
    RunStarted,
    StreamEnded,
    StreamHeld,
    TranscriptRejected,
    Witness,
)

ENDPOINT, SERVER, RUNNER = Witness.ENDPOINT, Witness.COUNTING_SERVER, Witness.RUNNER
JOB = RunStarted(witness=RUNNER, limits={"attempts": 2})
URL = "http://127.0.0.1:1/one"


def asked(n: int, *, turn: int = 1, body: str = "") -> RequestReceived:
    return RequestReceived(witness=ENDPOINT, request=f"r{n}", turn=turn, body=body)


def reply(n: int, status: int = 200) -> ReplyStarted:
    return ReplyStarted(witness=ENDPOINT, stream=f"s{n}", request=f"r{n}", status=status)


def end(n: int, *, complete: bool = False, end: str = "clean") -> StreamEnded:
    return StreamEnded(witness=ENDPOINT, stream=f"s{n}", complete=complete, end=end)


def http(n: int, url: str = URL) -> HttpReceived:
    return HttpReceived(witness=SERVER, request=f"h{n}", url=url)


def answered(n: int, status: int = 503) -> HttpAnswered:
    return HttpAnswered(witness=SERVER, request=f"h{n}", status=status, failed=status >= 400)


def only(*events: Event) -> reading.Attempt:
    (attempt,) = reading.attempts(Ledger(events))
    return attempt


@pytest.mark.parametrize(
    "facts",
    [
        [reply(1, 503), end(1)],
        [reply(1, 400)],
        [reply(1), end(1, end="reset")],
        [reply(1), end(1, end="client-left")],
        [reply(1), ClientClosed(witness=ENDPOINT, stream="s1")],
        [TranscriptRejected(witness=ENDPOINT, request="r1", problem="no result")],
        [RequestUnmatched(witness=ENDPOINT, request="r1", why="no reply is left")],
    ],
)
def test_an_attempt_without_a_whole_answer_has_failed(facts):
    assert only(asked(1), *facts).failed


@pytest.mark.parametrize(
    "facts",
    [
        [reply(1), end(1, complete=True)],
        [reply(1), end(1, complete=True, end="client-left")],
        [reply(1, 307), end(1)],
        [reply(1)],
        [],
    ],
)
def test_an_attempt_that_succeeded_or_is_under_way_has_not_failed(facts):
    assert not only(asked(1), *facts).failed


def test_a_refused_transcript_is_a_status_of_the_provider():
    assert only(asked(1), TranscriptRejected(witness=ENDPOINT, request="r1", problem="")).status == 400


def test_a_client_that_leaves_the_counting_server_has_a_failed_attempt():
    assert only(http(1), ClientClosed(witness=SERVER, stream="h1")).failed


def turns_of(*events: Event) -> list[tuple[int, int]]:
    return [(budget.turn, len(budget.attempts)) for budget in reading.budgets(Ledger(events))]


def test_each_model_turn_has_a_budget_of_its_own():
    assert turns_of(JOB, asked(1), asked(2), asked(3, turn=2)) == [(1, 2), (2, 1)]


def test_each_run_has_budgets_of_its_own():
    over = RunEnded(witness=RUNNER, how="raised")

    assert turns_of(JOB, asked(1), over, JOB, asked(2)) == [(1, 1), (1, 1)]


@pytest.mark.parametrize("how", ["killed", "signalled", "exited"])
def test_a_run_that_starts_again_after_its_process_died_goes_on_with_the_same_budget(how):
    over = RunEnded(witness=RUNNER, how=how)

    assert turns_of(JOB, asked(1), over, JOB, asked(2), over, JOB, asked(3)) == [(1, 3)]


def test_requests_before_the_first_run_belong_to_it():
    assert turns_of(asked(1), JOB, asked(2)) == [(1, 2)]


def test_all_requests_to_the_counting_server_have_one_budget_together():
    assert turns_of(JOB, http(1), http(2, url=f"{URL}/other")) == [(0, 2)]


def test_beside_model_turns_requests_to_the_counting_server_have_no_budget():
    assert turns_of(JOB, asked(1), http(1), http(2)) == [(1, 1)]


@pytest.mark.parametrize("limit", [None, 0, -1, True, "3", float("nan")])
def test_what_is_no_limit_gives_no_budget(limit):
    assert turns_of(replace(JOB, limits={"attempts": limit}), asked(1)) == []


def streams(*events: Event) -> int:
    ledger = Ledger(events)
    return reading.streams_of(ledger, reading.attempts(ledger))


def test_conversations_side_by_side_are_counted():
    assert streams(asked(1), reply(1), asked(2), reply(2), end(1, complete=True), end(2, complete=True)) == 2


def test_one_turn_after_the_other_is_one_conversation():
    assert streams(asked(1), reply(1), end(1, complete=True), asked(2), reply(2), end(2, complete=True)) == 1


def test_an_attempt_that_was_given_up_is_no_conversation_beside_the_next_one():
    left = [asked(1), reply(1), asked(2), reply(2), end(1, end="client-left"), end(2, complete=True)]
    held = [replace(event, end="stalled") if isinstance(event, StreamEnded) else event for event in left]
    silence = StreamHeld(witness=ENDPOINT, stream="s1", hold="h1")

    assert streams(*left) == 1
    assert streams(silence, *held) == 1


def pairs(*events: Event) -> list[tuple[str, str]]:
    found = reading.followed(Ledger(events))
    return [(first.request, second.request if second is not None else "") for first, second in found]


def test_a_request_is_followed_by_the_next_one_to_the_same_url():
    other = [http(2, url=f"{URL}/other"), answered(2)]

    assert pairs(http(1), answered(1), *other, http(3), answered(3)) == [
        ("h1", "h3"), ("h3", ""), ("h2", "")
    ]  # fmt: skip


def test_a_request_that_is_not_over_is_followed_by_none_that_can_be_told():
    assert pairs(http(1), http(2), answered(1), answered(2)) == [("h2", "")]


def use(n: int) -> FetchStarted:
    return FetchStarted(witness=RUNNER, call=f"f{n}", input="one")


def used(n: int) -> FetchEnded:
    return FetchEnded(witness=RUNNER, call=f"f{n}", how="raised")


def test_another_use_of_a_tool_is_no_repetition():
    calls = [use(1), http(1), answered(1), used(1), use(2), http(2), answered(2), used(2)]

    assert pairs(JOB, *calls) == [("h1", ""), ("h2", "")]


def test_requests_of_workers_side_by_side_cannot_be_told_apart():
    assert pairs(JOB, use(1), use(2), http(1), answered(1), http(2), answered(2), used(1), used(2)) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("{}", "{}", True),
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ('{"a": 1}', '{"a": 2}', False),
        ("not JSON", "not  JSON", False),
        ("", "{}", False),
        ("[" * 100_000, "[" * 100_001, False),
    ],
)
def test_requests_are_the_same_by_their_text_or_as_json(one, other, same):
    first, second = reading.attempts(Ledger([asked(1, body=one), asked(2, body=other)]))

    assert reading.is_same_request(first, second) is same


def test_something_else_in_between_is_seen():
    models = replace(asked(2), kind="models")
    ledger = Ledger([asked(1), models, asked(3), asked(4)])
    first, second, third = reading.attempts(ledger)

    assert not reading.is_next(ledger, first, second)
    assert reading.is_next(ledger, second, third)


@pytest.mark.parametrize(
    ("said", "seconds"), [("3600", 3600.0), (0.5, 0.5), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None)]
)
def test_a_planned_reply_says_how_many_seconds_its_client_is_asked_to_wait(said, seconds):
    setting = Setting(catalogue.dialect("openai-chat"), "stream", CountedIds("0"))
    made = plan(Reply().status(429, retry_after=said), setting)
    started = next(note.fields for _, note in made.notes if note.kind is ReplyStarted)

    assert started.get("retry_after") == seconds


def test_milliseconds_take_the_place_of_seconds():
    reply = Reply().status(429, retry_after=3600).header("retry-after-ms", "500")
    made = plan(reply, Setting(catalogue.dialect("openai-chat"), "stream", CountedIds("0")))

    assert [note.fields.get("retry_after") for _, note in made.notes if note.kind is ReplyStarted] == [0.5]
