"""Checks as data: there and back, totals, what fails at which level."""

from __future__ import annotations

import json

import pytest

from pytest_agentguard import Level, Outcome, Verdict
from pytest_agentguard._core.report import AgentInfo, Check, check_of, document, fails, totals
from pytest_agentguard.events import ToolStarted, Witness

START = ToolStarted(witness=Witness.TOOL_SPY, tool="record", arguments={"x": b"a"}, seq=7, t=0.25)
VERDICT = Verdict("tool-runs-once", Outcome.VIOLATED, Level.MUST, "starts=2 allowed=1", (START,), 3)
CASE = {"agent": "a", "surface": "chat", "scenario": "s", "dialect": "anthropic", "mode": "block"}
CHECK = check_of(VERDICT, seconds=1.5, **CASE)


def test_a_check_says_what_the_verdict_said() -> None:
    assert (CHECK.agent, CHECK.invariant, CHECK.level) == ("a", "tool-runs-once", "must")
    assert (CHECK.outcome, CHECK.summary, CHECK.seconds) == ("violated", "starts=2 allowed=1", 1.5)
    (event,) = CHECK.evidence
    assert (event["seq"], event["witness"], event["event"]) == (7, "tool-spy", "ToolStarted")


def test_a_check_travels_as_json_and_comes_back() -> None:
    assert Check.from_json(json.loads(json.dumps(CHECK.to_json()))) == CHECK


def test_a_check_has_the_keys_of_the_report() -> None:
    assert list(CHECK.to_json()) == [
        *("agent", "surface", "scenario", "dialect", "mode"),
        *("invariant", "level", "outcome", "summary", "evidence", "seconds"),
    ]


def test_totals_name_every_outcome() -> None:
    assert totals([CHECK, CHECK]) == {
        "held": 0,
        "violated": 2,
        "not exercised": 0,
        "invalid": 0,
        "known": 0,
    }


def test_the_document_has_agents_checks_and_totals() -> None:
    agent = AgentInfo(name="a", version="1", base_url="http://127.0.0.1:1", surfaces=("chat",))
    made = document("0.1.0", [agent], [CHECK])
    assert json.loads(json.dumps(made)) == made
    assert list(made) == ["schema", "version", "agents", "checks", "totals"]
    assert list(made["agents"][0]) == ["name", "version", "base_url", "surfaces", "not_covered"]
    assert made["schema"] == 1


@pytest.mark.parametrize("threshold", Level)
def test_an_invalid_check_fails_at_every_level(threshold: Level) -> None:
    assert all(fails("invalid", level, threshold) for level in Level)


@pytest.mark.parametrize(
    ("threshold", "failing"),
    [("must", ["must"]), ("should", ["must", "should"]), ("may", ["must", "should", "may"])],
)
def test_a_violation_fails_at_its_level_or_worse(threshold: str, failing: list[str]) -> None:
    assert [level for level in Level if fails("violated", level, threshold)] == failing


@pytest.mark.parametrize("outcome", ["held", "not exercised", "known"])
def test_nothing_else_fails(outcome: str) -> None:
    assert not any(fails(outcome, level, "may") for level in Level)
