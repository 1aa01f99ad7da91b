"""Every rule can fail: each mutant breaks the rules that it names and no other, good agents break none."""

from __future__ import annotations

import pytest

from mutants import table
from pytest_agentguard import catalogue
from pytest_agentguard._core.report import fails

NAMES = tuple(table.MUTANTS)
_PACED = {
    rule
    for rule in table.RULES
    if all(s.paced for s in catalogue.scenarios().values() if rule in s.invariants)
}
"""Rules about pace: a busy machine may not keep its own, and then they have no occasion."""


@pytest.mark.parametrize("name", NAMES)
def test_mutant_passes_its_control(name, evidence):
    outcomes = {check.outcome for check in evidence.of(name) if check.invariant == "control"}

    assert outcomes == {"held"}


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("name", NAMES)
def test_mutant_breaks_exactly_the_rules_that_it_names(name, evidence):
    surprises = [line for line in table.surprises(evidence) if line.split()[0] == name]

    assert surprises == []
    assert evidence.broken(name) == set(table.MUTANTS[name].breaks)


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("rule", table.RULES)
def test_every_rule_is_broken_by_a_mutant_at_its_own_level(rule, evidence):
    level = table.RULES[rule].level

    caught = [check for name in NAMES for check in evidence.of(name) if check.invariant == rule]

    assert [check for check in caught if fails(check.outcome, check.level, level)]


@pytest.mark.requirement("D10", "D11")
@pytest.mark.parametrize("agent", table.REFERENCES)
def test_a_good_agent_breaks_nothing_in_the_same_cases(agent, evidence):
    checks = evidence.of(agent)

    wrong = [(c.scenario, c.dialect, c.mode, c.invariant, c.summary) for c in checks if _is_bad(c.outcome)]

    assert wrong == []
    assert {check.invariant for check in checks if check.outcome == "held"} >= set(table.RULES) - _PACED


def test_a_good_agent_has_an_occasion_for_every_rule_of_every_scenario_it_met(evidence):
    checks = [check for agent in table.REFERENCES for check in evidence.of(agent)]
    met = {(check.scenario, check.invariant) for check in checks}
    held = {(check.scenario, check.invariant) for check in checks if check.outcome == "held"}

    assert {(scenario, rule) for scenario, rule in met - held if rule not in _PACED} == WITHOUT_OCCASION


WITHOUT_OCCASION = {
    ("calls-with-one-id", "tool-runs-once"),
    ("calls-without-ids", "tool-runs-once"),
    ("duplicate-keys", "tool-runs-once"),
    ("tool-fails-beside-another", "no-orphan-siblings"),
}
"""Where the reference runs nothing of a turn that others make sense of, or one call after the other."""


def _is_bad(outcome: str) -> bool:
    return outcome in ("violated", "invalid")


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("agent", table.IDLE)
def test_an_agent_that_does_nothing_passes_nothing(agent, evidence):
    checks = evidence.of(agent)

    assert {check.outcome for check in checks} == {"invalid"}
    assert {check.invariant for check in checks} >= set(table.RULES)


def test_nothing_of_the_table_is_left_out(evidence):
    run = {
        (check.agent, table.name_of(check.scenario, check.dialect, check.mode)) for check in evidence.checks
    }

    assert evidence.uncovered == {}
    assert run == {(case.agent, case.name) for case in table.cases()}


def test_the_page_of_mutants_is_what_the_battery_says(evidence):
    assert table.PAGE.read_text(encoding="utf-8") == table.page(evidence), (
        "python tests/mutants/table.py --write"
    )
