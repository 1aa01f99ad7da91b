"""Which cases an agent gets: what it offers, crossed with what the scenarios cover."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_agentguard import Behaviour, Cancel, FetchCall, FetchScript, Reply, Scenario, ToolSpec
from pytest_agentguard._runner.cases import Case, cases_of, uncovered_cancel


def scenario(id: str, **options: Any) -> Scenario:
    return Scenario(
        id=id, summary=".", invariants=(), script=lambda setup: [Reply().text("hello")], **options
    )


def names(*scenarios: Scenario, **options: Any) -> list[str]:
    offered: dict[str, Any] = {
        "dialects": ("openai-chat", "anthropic"),
        "modes": ("stream", "block"),
        "surfaces": ("chat",),
        "strict": False,
        **options,
    }
    return [case.name for case in cases_of("mine", scenarios, **offered)]


def test_scenario_runs_in_every_dialect_and_mode_that_is_offered() -> None:
    assert names(scenario("one"), scenario("two"), dialects=("openai-chat",)) == [
        "one[openai-chat-stream]",
        "one[openai-chat-block]",
        "two[openai-chat-stream]",
        "two[openai-chat-block]",
    ]


def test_scenario_that_does_not_exist_in_a_dialect_or_mode_has_no_case_there() -> None:
    assert names(scenario("one", dialects=("anthropic",), modes=("stream",))) == ["one[anthropic-stream]"]
    without = (("anthropic", "block"), ("openai-chat", "stream"))
    assert names(scenario("one", without=without)) == ["one[openai-chat-block]", "one[anthropic-stream]"]


def test_scenario_over_both_modes_needs_an_agent_that_offers_both() -> None:
    both = scenario("agree", modes=("both",))
    assert names(both) == ["agree[openai-chat-both]", "agree[anthropic-both]"]
    assert names(both, modes=("stream",)) == []


def test_other_surfaces_and_strict_scenarios_are_left_out() -> None:
    assert names(scenario("one", surface="fetch")) == []
    assert names(scenario("one", strict=True, modes=("stream",))) == []
    assert names(scenario("one", strict=True, modes=("stream",)), strict=True) == [
        "one[openai-chat-stream]",
        "one[anthropic-stream]",
    ]


def test_nothing_offered_is_no_case() -> None:
    assert names(scenario("one"), dialects=()) == []
    assert names(scenario("one"), modes=()) == []
    assert names(scenario("one"), surfaces=()) == []


def test_cases_are_the_same_where_agent_and_name_are() -> None:
    one, again = scenario("one"), scenario("one", seconds=3.0)
    case = Case("mine", one, "openai-chat", "stream")
    assert case == Case("mine", again, "openai-chat", "stream")
    assert len({case, Case("mine", again, "openai-chat", "stream")}) == 1
    assert case != Case("yours", one, "openai-chat", "stream")
    assert case != Case("mine", one, "openai-chat", "block")
    assert case != "one[openai-chat-stream]"


WORKERS = FetchScript(routes=(), calls=(FetchCall("one"), FetchCall("one", workers=2)))
SWALLOWING = ToolSpec(name="slow", behaviour=Behaviour(does="swallow-cancel"))


@pytest.mark.parametrize(
    ("cancels", "options", "reason"),
    [
        ("task", {"lanes": lambda setup: []}, ""),
        ("call", {"lanes": lambda setup: []}, ""),
        ("interrupt", {}, ""),
        ("interrupt", {"lanes": lambda setup: []}, "cancel of one run of several"),
        ("interrupt", {"tools": (SWALLOWING,)}, "cancel that a tool swallows"),
        ("call", {"tools": (SWALLOWING,)}, ""),
        ("interrupt", {"surface": "fetch", "fetch": WORKERS}, "cancel of several workers"),
        ("task", {"surface": "fetch", "fetch": WORKERS}, ""),
        ("call", {"surface": "fetch", "fetch": WORKERS}, ""),
        ("", {}, "cancel (a run in this process is not cancelled)"),
    ],
)
def test_a_cancel_that_cannot_reach_the_agent_is_not_covered(cancels, options, reason):
    given = Scenario(id="stopped", summary=".", invariants=(), cancel=Cancel(), **options)

    assert uncovered_cancel(given, cancels).startswith(reason)
    assert bool(uncovered_cancel(given, cancels)) == bool(reason)
    assert uncovered_cancel(replace(given, cancel=None), cancels) == ""
