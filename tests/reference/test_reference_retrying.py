"""What is tried again and when, without any server: budget, pauses, the effect ledger."""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.budget import AttemptBudget
from pytest_agentguard.reference.effects import EffectLedger
from pytest_agentguard.reference.retrying import Attempts, retry_after


def failure(status: int = 503, retry_after: float | None = None) -> errors.FetchFailed:
    error = errors.FetchFailed(f"status={status}")
    error.status, error.retry_after = status, retry_after
    return error


def begun(budget: int = 9, ends: float = math.inf) -> Attempts:
    attempts = Attempts(AttemptBudget(budget), ends=ends)
    attempts.begin()
    return attempts


def test_a_budget_is_spent_and_never_comes_back():
    budget = AttemptBudget(2)
    assert [budget.reserve(), budget.reserve()] == [1, 2]
    with pytest.raises(errors.BudgetExhausted, match=r"^no attempt is left: spent=2 allowed=2$"):
        budget.reserve()
    assert (budget.spent, budget.left) == (2, 0)


def test_a_budget_of_nothing_allows_nothing():
    with pytest.raises(errors.BudgetExhausted):
        AttemptBudget(0).reserve()
    with pytest.raises(ValueError, match=r"^attempts=-1 is less than 0$"):
        AttemptBudget(-1)


@pytest.mark.requirement("B13")
def test_threads_take_from_one_budget():
    budget, taken = AttemptBudget(100), []

    def work() -> None:
        try:
            while True:
                taken.append(budget.reserve())
        except errors.BudgetExhausted:
            pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert sorted(taken) == list(range(1, 101))


@pytest.mark.parametrize("made", [1, 2, 3, 6, 60])
def test_pauses_double_up_to_a_bound(made):
    attempts = begun()
    attempts.made = made
    longest = min(8.0, 0.25 * 2 ** (made - 1))
    assert all(0.75 * longest <= attempts.backoff() <= longest for _ in range(50))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_status_that_may_pass_is_worth_another_attempt(status):
    assert begun().wait_after(failure(status)) <= 0.25


@pytest.mark.parametrize("status", [200, 301, 400, 401, 402, 403, 404, 405, 413, 422])
def test_any_other_status_is_not(status):
    with pytest.raises(errors.FetchFailed):
        begun().wait_after(failure(status))


@pytest.mark.parametrize(
    ("kind", "again"),
    [
        (errors.Unreachable, True),
        (errors.ConnectionLost, True),
        (errors.IdleTimeout, True),
        (errors.RequestTimeout, True),
        (errors.DeadlineReached, False),
        (errors.RunStopped, False),
        (errors.RunCancelled, False),
        (errors.ReplyTooLarge, False),
    ],
)
def test_without_a_status_only_a_lost_request_is(kind, again):
    if again:
        assert begun().wait_after(kind("lost")) <= 0.25
    else:
        with pytest.raises(kind):
            begun().wait_after(kind("lost"))


def test_the_last_attempt_is_the_last():
    with pytest.raises(errors.FetchFailed):
        begun(budget=1).wait_after(failure())


def test_a_pause_is_as_long_as_the_server_asks():
    assert begun().wait_after(failure(retry_after=7.5)) == 7.5


@pytest.mark.parametrize("asked", [120.001, 3600.0, math.inf])
def test_a_pause_beyond_all_patience_is_not_begun(asked):
    with pytest.raises(errors.FetchFailed):
        begun().wait_after(failure(retry_after=asked))


def test_a_pause_beyond_the_deadline_is_not_begun():
    with pytest.raises(errors.FetchFailed):
        begun(ends=time.monotonic() + 5).wait_after(failure(retry_after=6.0))
    assert begun(ends=time.monotonic() + 60).wait_after(failure(retry_after=6.0)) == 6.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("1e400", math.inf),
        ("9" * 400, math.inf),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("", None),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("Wed, 99 Foo 99999 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_read_strictly(text, seconds):
    assert retry_after({"retry-after": text}) == seconds


@pytest.mark.parametrize("zone", [True, False])
def test_retry_after_may_be_a_date(zone):
    moment = datetime.now(UTC) + timedelta(seconds=100)
    text = format_datetime(moment, usegmt=True) if zone else f"{moment:%a, %d %b %Y %H:%M:%S}"
    found = retry_after({"retry-after": text})
    assert found is not None
    assert 90 < found <= 100


def test_without_the_header_nothing_is_asked():
    assert retry_after({}) is None


def test_every_call_has_a_key_of_its_own():
    first, second = begun(), begun()
    assert first.headers() == first.headers() != second.headers()


@pytest.mark.requirement("B16")
def test_what_was_sent_is_unknown_until_it_is_answered():
    effects = EffectLedger()
    _, done, absent = (effects.sending(name) for name in ("lost", "done", "absent"))
    effects.answered(done, 200)
    effects.not_sent(absent)

    assert effects.unknown() == ("lost",)
    assert effects.report() == "lost: unknown\ndone: answered status=200\nabsent: not sent"


def test_an_answer_is_not_taken_back():
    effects = EffectLedger()
    sent = effects.sending("a")
    effects.answered(sent, 200)
    with pytest.raises(ValueError, match=r"^not sent in state=answered; legal: nothing$"):
        effects.not_sent(sent)
    assert str(sent) == "a: answered status=200"
