"""The lines of the laboratory: a check, what had been received in it, and the sum."""

from __future__ import annotations

from pytest_agentguard.reports.laboratory import LaboratoryCheck, as_json, lines

_OK = LaboratoryCheck("mine", "laboratory-control", "passed", 1)
_BAD = LaboratoryCheck("mine", "laboratory-redirect", "failed", 2)


def test_each_check_has_a_line_and_the_last_one_sums_up():
    assert lines([_OK, _BAD]) == [
        "laboratory: does it really stop?",
        "PASS control received=1",
        "FAIL redirect received=2",
        "checks=2 passed=1 total_received=3",
    ]


def test_agents_have_blocks_of_their_own():
    other = LaboratoryCheck("other", "laboratory-control", "skipped", 0)
    assert lines([_OK, other]) == [
        "laboratory of mine: does it really stop?",
        "PASS control received=1",
        "checks=1 passed=1 total_received=1",
        "laboratory of other: does it really stop?",
        "SKIP control received=0",
        "checks=1 passed=0 total_received=0",
    ]


def test_nothing_is_said_where_it_did_not_run():
    assert lines([]) == []


def test_checks_are_data_too():
    assert as_json([_BAD]) == [
        {"agent": "mine", "scenario": "laboratory-redirect", "outcome": "failed", "received": 2}
    ]
