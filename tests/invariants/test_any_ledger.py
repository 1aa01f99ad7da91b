"""What holds for every rule on every ledger, however senseless."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invariants.random_ledgers import random_events
from invariants.stories import FINAL, STREAM, Story, alarms
from pytest_agentguard import Ledger, Level, Outcome, Reply, catalogue, judge
from pytest_agentguard.events import Claim, Event, RunEnded, StreamReleased, ToolStarted, Witness

RULES = catalogue.invariants()
NO_TOOL = [rule for id, rule in RULES.items() if id.startswith("no-tool-on-")]
NO_SUCCESS = [rule for id, rule in RULES.items() if id.startswith("no-success-on-")]
TIMED = [RULES["stall-ends"], RULES["trickle-ends"]]

many = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), database=None)
few = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@many
@given(random_events())
def test_no_rule_raises_and_its_evidence_is_in_the_ledger(events: list[Event]):
    ledger = Ledger(events)
    for rule in RULES.values():
        for finding in rule.check(ledger):
            assert finding.evidence
            assert all(1 <= event.seq <= len(events) for event in finding.evidence)
            assert bool(finding.summary) is finding.violated
        judge(ledger, rule)


@many
@given(random_events())
def test_without_tool_starts_no_rule_about_tools_is_violated(events: list[Event]):
    ledger = Ledger([event for event in events if not isinstance(event, ToolStarted)])

    assert [rule.id for rule in NO_TOOL if judge(ledger, rule).outcome is Outcome.VIOLATED] == []


@many
@given(random_events(), st.sampled_from(["raised", "limited", "failed", "cancelled", "killed", "signalled"]))
def test_a_run_that_does_not_return_claims_no_success(events: list[Event], how: str):
    ledger = Ledger([replace(e, how=how) if isinstance(e, RunEnded) else e for e in events])
    for rule in NO_SUCCESS:
        verdict = judge(ledger, rule)
        assert verdict.outcome is not Outcome.VIOLATED or verdict.level is Level.MAY


@many
@given(random_events())
def test_without_a_release_at_the_limit_no_wait_was_too_long(events: list[Event]):
    ledger = Ledger([e for e in events if not (isinstance(e, StreamReleased) and e.by == "limit")])

    assert [rule.id for rule in TIMED if judge(ledger, rule).outcome is Outcome.VIOLATED] == []


@many
@given(random_events())
def test_what_the_agent_says_about_itself_changes_no_verdict(events: list[Event]):
    without = Ledger([e for e in events if not isinstance(e, Claim)])
    claims = [Claim(witness=Witness.AGENT, what="done", value="final-n9")]
    with_claims = Ledger([*claims, *without, *claims])
    for rule in STREAM.values():
        assert judge(with_claims, rule).outcome is judge(without, rule).outcome


# -- agents that do everything right --------------------------------------------------------------------

VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}"), max_size=12)
CALLS = st.lists(st.tuples(VALUES, st.none() | VALUES), min_size=1, max_size=3)


def asking(calls: list[tuple[str, str | None]]) -> Reply:
    """The model asks for ``record``, once or several times."""
    reply = Reply()
    for x, y in calls:
        more = {} if y is None else {"y": y}
        reply = reply.call("record", x="{nonce}" + x, **more)
    return reply.interleave() if len(calls) > 1 else reply


def _spoil(reply: Reply, name: str, at: int) -> Reply:
    match name:
        case "cut" | "protocol_cut" | "reset":
            return getattr(reply, name)(at) if at else getattr(reply, name)()
        case "error-end" | "error-done" | "error-rest":
            return reply.error("overloaded", then=name.removeprefix("error-"))
        case "html" | "challenge" | "nothing" | "only_done" | "json_error":
            return getattr(Reply(), name)()
        case "length" | "filter" | "refusal" | "unknown":
            return reply.finish(name)
    return Reply().status(int(name))


FAULTS = st.sampled_from(
    [
        "cut", "protocol_cut", "reset", "error-end", "error-done", "error-rest", "html", "challenge",
        "nothing", "only_done", "json_error", "503", "429", "401", "400", "500",
    ]
)  # fmt: skip
FINISHES = st.sampled_from(["length", "filter", "refusal", "unknown"])
WHERE = st.tuples(st.sampled_from(["openai-chat", "anthropic"]), st.sampled_from(["stream", "block"]))
ROUNDS = st.lists(CALLS, max_size=2)
POSITIONS = st.just(0) | st.integers(1, 120)


def _works(story: Story, rounds: list[list[tuple[str, str | None]]], order: object) -> None:
    for calls in rounds:
        offers = story.plays(asking(calls))
        order.shuffle(offers)  # type: ignore[attr-defined]
        for offer in offers:
            story.runs(offer)


@few
@given(WHERE, ROUNDS, st.randoms(use_true_random=False))
def test_a_right_agent_raises_no_alarm(where, rounds, order):
    story = Story(*where).start()
    _works(story, rounds, order)
    story.plays(Reply().text("The answer is ", FINAL))

    assert alarms(story.returns()) == []


@few
@given(
    WHERE,
    ROUNDS,
    st.lists(st.tuples(FAULTS, POSITIONS), min_size=1, max_size=2),
    st.randoms(use_true_random=False),
)
def test_an_agent_that_tries_again_and_gets_its_answer_raises_no_alarm(where, rounds, faults, order):
    story = Story(*where).start(attempts=3.0)
    for fault, at in faults:
        story.plays(_spoil(asking([("x", None)]), fault, at))
    _works(story, rounds, order)
    for fault, at in faults:
        story.plays(_spoil(Reply().text("The answer is ", FINAL), fault, at))
    story.plays(Reply().text("The answer is ", FINAL))

    assert alarms(story.returns()) == []


@few
@given(WHERE, ROUNDS, FAULTS | FINISHES, POSITIONS, CALLS | st.none(), st.randoms(use_true_random=False))
def test_an_agent_that_fails_loudly_raises_no_alarm(where, rounds, fault, at, calls, order):
    story = Story(*where).start()
    _works(story, rounds, order)
    story.plays(_spoil(asking(calls) if calls else Reply().text("The answer is ", FINAL), fault, at))

    error = "content-type text/html or JSON instead of a stream: overloaded, auth, rate limit, 400, server"
    assert alarms(story.raises(error)) == []


@few
@given(WHERE, FAULTS, st.sampled_from(["tool", "success"]))
def test_a_wrong_agent_is_seen(where, fault, wrong):
    """The same stories with one wrong step: without this, silence above would prove nothing."""
    story = Story(*where).start()
    offers = story.plays(_spoil(asking([("x", None)]), fault, 0))
    if wrong == "tool" and not offers:
        return
    if wrong == "tool":
        story.runs(offers[0])
        story.raises("content-type text/html or JSON: overloaded, auth, rate limit, 400, server")
    else:
        story.returns("done")

    assert alarms(story.ledger, [Level.MUST, Level.SHOULD]) != []


@pytest.mark.parametrize("finish", ["filter", "refusal"])
def test_a_refusal_that_comes_back_as_an_answer_is_seen(finish):
    story = Story().start()
    story.plays(Reply().text("The number is").finish(finish))

    assert alarms(story.returns("The number is")) != []
