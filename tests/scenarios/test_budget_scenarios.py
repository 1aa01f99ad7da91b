"""The budget scenarios as data: every rule has an occasion, and none of them waits for long."""

from __future__ import annotations

import pytest

from pytest_agentguard import Scenario, catalogue
from pytest_agentguard.scenarios import chat_budgets, fetch_budgets

SCENARIOS: tuple[Scenario, ...] = (*chat_budgets.SCENARIOS, *fetch_budgets.SCENARIOS)
CHAT = [scenario for scenario in SCENARIOS if scenario.surface == "chat"]
FETCH = [scenario for scenario in SCENARIOS if scenario.surface == "fetch"]
RULES = [id for id, rule in catalogue.invariants().items() if rule.family == "budget"]
FETCH_ONLY = {"refusal-is-free", "budget-shared"}
CHAT_ONLY = {"rounds-bounded", "limit-checked-first", "same-failure-not-retried"}


@pytest.mark.parametrize("rule", RULES)
def test_every_budget_rule_has_an_occasion_on_each_surface_that_it_is_about(rule: str) -> None:
    chat = any(rule in scenario.invariants for scenario in CHAT)
    fetch = any(rule in scenario.invariants for scenario in FETCH)

    assert chat is (rule not in FETCH_ONLY)
    assert fetch is (rule not in CHAT_ONLY)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_budget_scenarios_are_about_budgets_and_declare_one(scenario: Scenario) -> None:
    assert set(scenario.invariants) <= set(RULES)
    assert scenario.limits.declared()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_limits_in_seconds_are_short(scenario: Scenario) -> None:
    assert all(seconds <= 0.5 for seconds in scenario.limits.times().values())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_a_run_that_sleeps_past_its_deadline_is_ended_after_the_patience_of_the_rule(
    scenario: Scenario,
) -> None:
    if "retry-after-bounded" in scenario.invariants:
        deadline = scenario.limits.deadline
        assert deadline is not None
        assert max(10 * deadline, 5.0) < scenario.seconds < 10.0


@pytest.mark.parametrize("row", ["B03", "B05", "B06", "B07", "B13", "B14", "B16", "B18", "D04"])
def test_every_row_about_budgets_has_a_scenario(row: str) -> None:
    assert any(row in scenario.requirements for scenario in SCENARIOS)
