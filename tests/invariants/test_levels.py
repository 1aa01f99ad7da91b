"""How much a violation weighs, where that depends on what was cut."""

from __future__ import annotations

import pytest

from invariants.stories import Story, record, verdicts
from pytest_agentguard import Level, Outcome, Reply


def level(story: Story, id: str) -> Level | None:
    verdict = verdicts(story.ledger)[id]
    return verdict.level if verdict.outcome is Outcome.VIOLATED else None


def ran(reply: Reply, id: str, **arguments: str) -> Level | None:
    story = Story().start()
    for offer in story.plays(reply):
        story.runs(offer, **{n: v.replace("{nonce}", offer.nonce) for n, v in arguments.items()})
    return level(story, id)


@pytest.mark.parametrize("ending", ["cut", "protocol_cut", "reset", "stall"])
def test_a_cut_call_that_ran_is_a_must_and_a_whole_one_a_should(ending):
    cut = getattr(record(), ending)(inside="x")
    whole = getattr(record(), ending)()

    assert ran(cut, "no-tool-on-incomplete-stream", x="{nonce}") is Level.MUST
    assert ran(whole, "no-tool-on-incomplete-stream") is Level.SHOULD


def test_the_output_limit_is_a_must_where_it_cut_and_a_may_where_it_did_not():
    cut = Reply().call("record", raw='{"x": "{nonce}', problem="broken").finish("length")

    assert ran(cut, "no-tool-on-length-stop", x="{nonce}") is Level.MUST
    assert ran(record().finish("length"), "no-tool-on-length-stop") is Level.MAY


@pytest.mark.parametrize("reason", ["filter", "refusal", "unknown"])
def test_a_withdrawn_call_that_ran_is_a_should(reason):
    assert ran(record().finish(reason), "no-tool-on-withdrawn-call") is Level.SHOULD


@pytest.mark.parametrize("then", ["end", "done", "rest"])
def test_a_call_before_an_error_event_that_ran_is_a_must(then):
    assert ran(record().error("overloaded", then=then), "no-tool-on-withdrawn-call") is Level.MUST


def test_an_unknown_extra_member_is_a_may_and_any_other_breach_of_the_schema_a_must():
    extra = Reply().call("record", x="{nonce}", z="?", problem="extra")
    invalid = Reply().call("record", raw='{"x": NaN, "y": "{nonce}"}', problem="invalid")

    assert ran(extra, "no-tool-on-invalid-arguments", x="{nonce}") is Level.MAY
    assert ran(invalid, "no-tool-on-invalid-arguments", x="nan", y="{nonce}") is Level.MUST


def test_a_run_that_fails_without_saying_what_came_is_a_may_and_a_false_success_a_should():
    mute, false = Story().start(), Story().start()
    mute.plays(Reply().html())
    false.plays(Reply().html())
    mute.raises("", error_type="AssertionError")
    false.returns("")

    assert level(mute, "no-success-on-non-stream") is Level.MAY
    assert level(false, "no-success-on-non-stream") is Level.SHOULD


@pytest.mark.parametrize("reply", [record().error("server"), record().status(503)])
def test_success_after_an_error_of_the_provider_is_a_must(reply):
    story = Story().start()
    story.plays(reply)
    story.returns("done")

    assert level(story, "no-success-on-error-event") is Level.MUST


def test_a_call_without_an_id_that_ran_is_a_may():
    assert ran(Reply().call("record", id=None, x="{nonce}"), "calls-kept-apart") is Level.MAY
