"""Every rule of the catalogue carries its proof: ledgers that keep it, break it, resemble it, miss it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_agentguard import Invariant, Ledger, Outcome, catalogue, judge, violated
from pytest_agentguard.events import Event
from pytest_agentguard.testing import check_invariant

RULES = catalogue.invariants()
EXAMPLES = [
    pytest.param(id, group, n, id=f"{id}-{group}-{n}")
    for id, rule in RULES.items()
    for group in ("holds", "breaks", "silent", "idle")
    for n in range(len(getattr(rule, group)))
]
EXPECTED = {
    "holds": {Outcome.HELD},
    "breaks": {Outcome.VIOLATED},
    "silent": {Outcome.HELD, Outcome.NOT_EXERCISED},
    "idle": {Outcome.NOT_EXERCISED},
}
STREAM = """
    no-tool-on-incomplete-stream no-tool-on-length-stop no-tool-on-withdrawn-call no-tool-on-broken-arguments
    no-tool-on-invalid-arguments tool-runs-once unknown-tool-is-an-error no-success-on-incomplete-stream
    no-success-on-error-event no-success-on-empty-stream no-success-on-non-stream same-answer-at-any-split
    stall-ends trickle-ends stream-memory-bounded calls-kept-apart nothing-dropped-in-silence
    stream-and-block-agree refusal-is-visible error-keeps-its-kind marker-ends-the-wait
    healthy-slow-stream-survives transcript-is-valid
"""

every_rule = pytest.mark.parametrize("id", RULES)


@pytest.mark.parametrize(("id", "group", "n"), EXAMPLES)
def test_an_example_is_judged_as_it_says(id, group, n):
    verdict = judge(getattr(RULES[id], group)[n], RULES[id])

    assert verdict.outcome in EXPECTED[group], verdict.summary


@every_rule
def test_a_rule_is_documented_and_its_examples_differ_by_little(id):
    assert check_invariant(RULES[id]) == []


@every_rule
def test_a_rule_has_a_summary_that_is_a_sentence(id):
    assert RULES[id].summary.endswith(".")
    assert RULES[id].family


@every_rule
def test_an_empty_ledger_gives_no_occasion(id):
    assert judge(Ledger(), RULES[id]).outcome is Outcome.NOT_EXERCISED


@every_rule
def test_evidence_comes_from_the_ledger_and_in_its_order(id):
    for ledger in RULES[id].breaks:
        seen = {event.seq for event in ledger}
        evidence = judge(ledger, RULES[id]).evidence
        assert evidence
        assert {event.seq for event in evidence} <= seen
        assert [event.seq for event in evidence] == sorted(event.seq for event in evidence)


def test_every_rule_of_the_stream_family_is_in_the_catalogue():
    assert set(STREAM.split()) <= {id for id, rule in RULES.items() if rule.family == "stream"}


def example() -> Invariant:
    return RULES["no-tool-on-incomplete-stream"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"why": " "}, "why is empty"),
        ({"remedy": "Stop"}, "remedy does not end with a full stop"),
        ({"silent": ()}, "silent has no ledger"),
        ({"holds": example().breaks[:1]}, "holds[0] is violated, expected held: "),
        ({"breaks": example().holds}, "breaks[0] is held, expected violated: "),
        ({"idle": example().holds}, "idle[0] is held, expected not exercised: "),
    ],
)
def test_a_flaw_in_a_proof_is_named(changes, problem):
    problems = check_invariant(replace(example(), **changes))

    assert any(found.startswith(problem) for found in problems), problems


def test_a_breach_without_facts_or_evidence_is_named():
    def check(ledger):
        if len(ledger) > 1:
            yield violated("it was bad")

    problems = check_invariant(replace(example(), check=check, breaks=example().breaks[:1]))

    assert "breaks[0] has a summary without a fact as name=value: 'it was bad'" in problems
    assert "breaks[0] has no evidence" in problems


def test_an_example_far_from_every_good_one_is_named():
    rule = example()
    far: list[Event] = [event for ledger in rule.breaks for event in ledger]

    problems = check_invariant(replace(rule, breaks=[Ledger(far)], silent=rule.idle))

    assert "breaks[0] is far from every good example: events=13 allowed=4" in problems
