"""What resembles a fault and is right: no rule of the stream family may say a word about it."""

from __future__ import annotations

import pytest

from invariants.stories import FINAL, Story, alarms, final, record, verdicts
from pytest_agentguard import AFTER_FINISH, Outcome, Reply, after_event
from pytest_agentguard.events import RequestReceived, RunEnded, Witness

DIALECTS = ("openai-chat", "anthropic")
MODES = ("stream", "block")

everywhere = pytest.mark.parametrize(("dialect", "mode"), [(d, m) for d in DIALECTS for m in MODES])


def right(reply: Reply, story: Story) -> Story:
    """An agent that does everything right with ``reply`` and then gets its answer."""
    for offer in story.plays(reply):
        story.runs(offer)
    story.plays(final())
    story.returns()
    return story


@everywhere
def test_a_turn_with_a_call_and_an_answer(dialect, mode):
    story = right(record(), Story(dialect, mode).start())

    assert alarms(story.ledger) == []
    held = {id for id, verdict in verdicts(story.ledger).items() if verdict.outcome is Outcome.HELD}
    assert held >= {
        "tool-runs-once", "nothing-dropped-in-silence", "transcript-is-valid", "same-answer-at-any-split"
    }  # fmt: skip


@everywhere
def test_finish_reason_stop_with_calls_present(dialect, mode):
    assert alarms(right(record().finish("stop"), Story(dialect, mode).start()).ledger) == []


@everywhere
def test_usage_after_the_finish_event(dialect, mode):
    assert alarms(right(record().usage(), Story(dialect, mode).start()).ledger) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("ending", ["cut", "protocol_cut", "reset"])
def test_the_marker_missing_after_the_finish_event(dialect, ending):
    reply = getattr(record(), ending)(AFTER_FINISH)

    assert alarms(right(reply, Story(dialect).start()).ledger) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_marker_missing_after_the_finish_event_is_an_alarm_in_strict_mode(dialect):
    story = right(record().cut(AFTER_FINISH), Story(dialect, strict=True).start())

    assert [line.partition(":")[0] for line in alarms(story.ledger)] == ["no-tool-on-incomplete-stream"]


@everywhere
def test_one_keep_alive(dialect, mode):
    reply = record().keep_alive(after_event(1))

    assert alarms(right(reply, Story(dialect, mode).start()).ledger) == []


@everywhere
@pytest.mark.parametrize("raw", ["", "{}"])
def test_empty_arguments_for_a_tool_without_parameters(dialect, mode, raw):
    story = Story(dialect, mode).start(tools={"refresh": {"type": "object", "properties": {}}})

    assert alarms(right(Reply().call("refresh", raw=raw), story).ledger) == []


@pytest.mark.parametrize("id", ["call_a", "0", "toolu-ä", "x" * 64])
def test_ids_of_any_shape(id):
    assert alarms(right(Reply().call("record", id=id, x="{nonce}"), Story().start()).ledger) == []


@everywhere
def test_parallel_calls_in_any_order(dialect, mode):
    story = Story(dialect, mode).start()
    reply = Reply().call("record", x="{nonce}-a").call("record", x="{nonce}-b", y="b").interleave()
    for offer in reversed(story.plays(reply)):
        story.runs(offer)
    story.plays(final())

    assert alarms(story.returns()) == []


@everywhere
@pytest.mark.parametrize(
    "fault",
    [
        record().cut(), record().cut(inside="x"), record().protocol_cut(), record().reset(),
        record().status(503), record().status(429), record().error("overloaded"),
        Reply().nothing(), Reply().html(), Reply().json_error("server"),
    ],
    ids=lambda reply: reply.fault,
)  # fmt: skip
def test_a_retry_that_gets_its_answer(dialect, mode, fault):
    story = Story(dialect, mode).start(attempts=3)
    story.plays(fault)

    assert alarms(right(record(), story).ledger) == []


@everywhere
@pytest.mark.parametrize(
    "fault",
    [
        record().cut(), record().cut(inside="x"), record().protocol_cut(), record().reset(), record().stall(),
        record().drip(), record().status(503), record().status(401), record().error("overloaded"),
        record().error("context", then="done"), record().error("server", then="rest"),
        Reply().nothing(), Reply().only_done(), Reply().html(), Reply().challenge(), Reply().json_error(),
        record().typed("text/plain"), Reply().text("half").finish("length"), record().finish("length"),
        record().finish("filter"), record().finish("refusal"), record().finish("unknown"),
        Reply().call("record", x=7, problem="invalid"), Reply().call("nobody", x="{nonce}"),
    ],
    ids=lambda reply: f"{reply.fault}-{reply.turn.finish}",
)  # fmt: skip
def test_a_run_that_fails_loudly(dialect, mode, fault):
    story = Story(dialect, mode).start(idle_timeout=1.0)
    story.plays(fault)

    error = "content type text/html, application/json or text/plain: overloaded, auth, context, server"
    assert alarms(story.raises(error)) == []


@pytest.mark.parametrize(("dialect", "mode"), [("openai-chat", m) for m in MODES] + [("anthropic", "stream")])
def test_a_run_that_fails_loudly_on_broken_arguments(dialect, mode):
    story = Story(dialect, mode).start()
    story.plays(Reply().call("record", raw='{"x": "{nonce}', problem="broken"))

    assert alarms(story.raises("the arguments are not JSON")) == []


def test_a_call_that_ends_in_an_error_told_to_the_model():
    story = Story().start()
    for offer in story.plays(Reply().call("record", raw='{"x": ', problem="broken")):
        story.tells(offer, "error: the arguments are not JSON")
    story.plays(final())

    assert alarms(story.returns()) == []


def test_an_unknown_tool_that_is_told_to_the_model():
    story = Story().start()
    for offer in story.plays(Reply().call("nobody", x="{nonce}")):
        story.tells(offer, "error: no such tool")
    story.plays(final())

    assert alarms(story.returns()) == []


def test_a_cancelled_run_that_raises_the_cancellation_of_its_framework():
    story = Story().start(idle_timeout=1.0)
    story.plays(record().hold(after_event(1)))

    assert alarms(story.raises("", error_type="asyncio.CancelledError", how="cancelled")) == []


def test_a_timeout_that_ends_late_but_before_the_release():
    story = Story().start(idle_timeout=1.0)
    story.plays(record().stall(), release="client-closed")

    assert alarms(story.raises("timed out")) == []


def test_an_idle_pooled_connection_at_the_end():
    story = Story().start()
    story.plays(final().keep_open())

    assert alarms(story.returns()) == []


def test_a_client_that_closes_once_it_has_the_marker():
    story = Story().start()
    reply = final()
    story.plays(reply, left_at=10_000)

    assert alarms(story.returns()) == []


def test_a_client_that_leaves_before_a_fault_has_shown():
    story = Story().start()
    for offer in story.plays(record().cut(), left_at=40):
        story.tells(offer, "never")

    assert alarms(story.raises("cancelled by the caller", how="cancelled")) == []


def test_a_side_job_with_a_reply_of_its_own():
    story = Story().start()
    for offer in story.plays(record()):
        story.runs(offer)
    facts = {"witness": Witness.ENDPOINT, "request": "t1", "kind": "other", "body": "a title, please"}
    story.ledger.record(RequestReceived, **facts)
    story.plays(final())

    assert alarms(story.returns()) == []


def test_a_second_run_in_one_test_is_judged_for_itself():
    story = Story().start()
    story.plays(record().cut())
    story.raises("incomplete")
    story.start()
    story.plays(final())
    good = story.returns()
    assert alarms(good) == []

    story.start()
    story.plays(final().cut())
    broken = story.returns(f"The answer is {FINAL}")

    assert [line.partition(":")[0] for line in alarms(broken)] == ["no-success-on-incomplete-stream"]
    assert len(broken.of(RunEnded)) == 3
