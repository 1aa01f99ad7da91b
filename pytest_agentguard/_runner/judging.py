"""Asks the rules of a scenario about the ledger of a case: as one story, or lane by lane in a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._core.verdict import Invariant, Level, Outcome, Verdict, judge
from pytest_agentguard._runner.control import Control


def judge_case(
    scenario: Scenario, rules: Sequence[Invariant], ledger: Ledger, problem: str = ""
) -> list[Verdict]:
    """One verdict per rule; with a ``problem`` the run proves nothing, and all are invalid."""
    if problem:
        return invalid(rules, problem)
    if not is_sweep(scenario):
        return [judge(ledger, rule) for rule in rules]
    lanes = ledger.by_lane()
    return [judge(ledger, rule) if rule.across_lanes else _judge_lanes(rule, lanes) for rule in rules]


def invalid(rules: Iterable[Invariant], reason: str) -> list[Verdict]:
    """Every rule, invalid for the same reason."""
    return [Verdict(rule.id, Outcome.INVALID, rule.level, reason) for rule in rules]


def control_verdict(control: Control) -> Verdict:
    """What the control itself came to."""
    outcome = Outcome.INVALID if control.problem else Outcome.HELD
    return Verdict("control", outcome, Level.MUST, control.problem, control.evidence, 1)


def is_sweep(scenario: Scenario) -> bool:
    """Whether its lanes are many cases of one kind, rather than one story."""
    return scenario.lanes is not None and not scenario.together


def first_bad(verdicts: Iterable[Verdict]) -> tuple[str, Verdict | None]:
    """The first violation of a sweep that can be pinned on a lane, and that lane."""
    for verdict in verdicts:
        lane = next((event.lane for event in verdict.evidence if event.lane), "")
        if verdict.outcome is Outcome.VIOLATED and lane:
            return lane, verdict
    return "", None


def _judge_lanes(rule: Invariant, lanes: Mapping[str, Ledger]) -> Verdict:
    """The worst verdict over the lanes; of several bad ones the first, with how many there are."""
    lanes = dict(sorted(lanes.items()))  # they went on side by side; labels say which offset is first
    verdicts = [judge(ledger, rule) for ledger in lanes.values()]
    for outcome in (Outcome.INVALID, Outcome.VIOLATED):
        bad = [(lane, v) for lane, v in zip(lanes, verdicts, strict=True) if v.outcome is outcome]
        if bad:
            lane, first = bad[0]
            summary = f"first at {lane}, {len(bad)} of {len(lanes)}: {first.summary}"
            return replace(first, summary=summary)
    held = [v for v in verdicts if v.outcome is Outcome.HELD]
    return (
        replace(held[0], occasions=len(held)) if held else Verdict(rule.id, Outcome.NOT_EXERCISED, rule.level)
    )
