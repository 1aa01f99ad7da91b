"""Every row of the requirements works and is proven by the battery, or names what it waits for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest
from mutants.table import MUTANTS, Evidence

from pytest_agentguard import catalogue
from pytest_agentguard._core.report import Check
from pytest_agentguard.events import StreamEnded
from requirements import manifest
from requirements.manifest import EVERY, Proof, Row

ROWS = manifest.rows()
WORKING = {
    *("A03", "A16", "A17", "A18", "A19", "A20", "A21", "A22", "A23", "A24", "A25", "A38", "A41", "A43"),
    *(f"B{n:02}" for n in range(1, 20)),
    *(f"D{n:02}" for n in range(1, 12)),
}


def test_every_row_of_the_requirements_is_there_and_no_other():
    assert tuple(ROWS) == manifest.IDS


def test_the_rows_that_work_are_the_promised_ones():
    assert {row.id for row in ROWS.values() if row.works} == WORKING


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_has_a_proof_or_says_what_it_waits_for(row: Row):
    assert row.says.endswith(".")
    assert bool(row.proofs) == row.works
    assert row.works or row.later in manifest.CAPABILITIES
    assert not row.rest or (row.works and row.rest in manifest.CAPABILITIES)


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.works], ids=lambda row: row.id)
def test_a_proof_names_what_there_is(row: Row):
    scenarios, rules = catalogue.scenarios(), catalogue.invariants()
    for proof in row.proofs:
        assert {*proof.scenarios} <= {*scenarios, EVERY}
        assert {*proof.rules, *proof.kept} <= {*rules, EVERY}
        assert {*proof.mutants} <= {*MUTANTS, EVERY}
        assert proof.mutants or proof.control or proof == Proof(tests=proof.tests)
        for name in proof.scenarios:
            assert name == EVERY or set(proof.rules) & set(scenarios[name].invariants), name


def test_the_tests_that_prove_a_row_are_collected():
    named = {node for row in ROWS.values() for proof in row.proofs for node in proof.tests}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        *sorted(named),
    ]

    listed = subprocess.run(command, cwd=manifest.ROOT, capture_output=True, text=True, timeout=60)

    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert {line.partition("[")[0] for line in listed.stdout.splitlines() if "::" in line} == named


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.works], ids=lambda row: row.id)
def test_a_row_that_works_is_held_by_the_reference_and_broken_by_its_mutants(row: Row, evidence: Evidence):
    assert [problem for proof in row.proofs for problem in problems(proof, evidence)] == []


def test_a_test_or_a_scenario_names_only_rows_that_there_are():
    folder = manifest.ROOT / "tests"
    unknown = [f"{place}: {id}" for place, id in manifest.marked(folder) if id not in ROWS]
    unknown += [
        f"{s.id}: {id}" for s in catalogue.scenarios().values() for id in s.requirements if id not in WORKING
    ]

    assert unknown == []


def test_the_page_of_requirements_is_what_the_rows_say():
    written = manifest.PAGE.read_text(encoding="utf-8")

    assert written == manifest.page(ROWS), "python tests/requirements/manifest.py --write"


def test_a_proof_without_evidence_is_no_proof():
    proof = Proof(scenarios=("control",), rules=("tool-runs-once",), mutants=("no_bounds",))

    assert list(problems(proof, Evidence(()))) == [
        "reference: control tool-runs-once in openai-chat: no check",
        "reference-trio: control tool-runs-once in openai-chat: no check",
        "no_bounds breaks none of tool-runs-once",
        "tool-runs-once is broken by no mutant",
    ]


# -- what is missing from a proof ---------------------------------------------------------------------


def problems(proof: Proof, evidence: Evidence) -> list[str]:
    """What is missing from a proof, in words."""
    found = [problem for agent in proof.agents for problem in _not_held(proof, agent, evidence)]
    broken = {name: _broken(proof, name, evidence) for name in _mutants(proof)}
    rules = set(proof.rules) - set(proof.kept) - {EVERY}
    found += [f"{name} breaks none of {', '.join(proof.rules)}" for name in broken if not broken[name]]
    if not proof.control:
        missing = rules - {check.invariant for checks in broken.values() for check in checks}
        found += [f"{rule} is broken by no mutant" for rule in sorted(missing)]
    for name, checks in broken.items() if proof.witnesses else ():
        seen = _witnesses(name, checks, evidence)
        found += [f"{name}: no word of {w}" for w in proof.witnesses if w not in seen]
    return found


def _mutants(proof: Proof) -> tuple[str, ...]:
    return tuple(MUTANTS) if proof.mutants == (EVERY,) else proof.mutants


def _pairs(proof: Proof) -> list[tuple[str, str]]:
    """Each scenario of a proof with each of its rules that it gives occasion to."""
    scenarios = catalogue.scenarios()
    return [
        (name, rule)
        for name in proof.scenarios
        if name != EVERY
        for rule in proof.rules
        if rule in scenarios[name].invariants
    ]


def _dialects(proof: Proof, scenario: str) -> tuple[str, ...]:
    return proof.dialects if catalogue.scenarios()[scenario].surface == "chat" else ("",)


def _not_held(proof: Proof, agent: str, evidence: Evidence) -> list[str]:
    found = []
    for name, rule in _pairs(proof):
        for dialect in _dialects(proof, name):
            checks = [
                check
                for check in evidence.of(agent)
                if (check.scenario, check.invariant, check.dialect) == (name, rule, dialect)
            ]
            outcomes = sorted({check.outcome for check in checks}) or ["no check"]
            if outcomes != ["held"]:
                found.append(f"{agent}: {name} {rule} in {dialect or 'fetch'}: {', '.join(outcomes)}")
            if proof.receipts:
                found += [f"{agent}: {name}: {wrong}" for check in checks for wrong in _undelivered(check)]
    return found


def _broken(proof: Proof, name: str, evidence: Evidence) -> list[Check]:
    every = proof.scenarios == (EVERY,)
    pairs = _pairs(proof)
    return [
        check
        for check in evidence.of(name)
        if check.outcome == "violated" and (every or (check.scenario, check.invariant) in pairs)
    ]


def _witnesses(name: str, broken: list[Check], evidence: Evidence) -> set[str]:
    """Whose facts the verdicts rest on, in the runs in which a rule was broken."""
    runs = {(check.scenario, check.dialect, check.mode) for check in broken}
    checks = [check for check in evidence.of(name) if (check.scenario, check.dialect, check.mode) in runs]
    return {event["witness"] for check in checks for event in check.evidence}


def _undelivered(check: Check) -> list[str]:
    """Streams among the evidence whose receipt is not what was planned; at least one has to be there."""
    ends = [_ended(event) for event in check.evidence if event["event"] == "StreamEnded"]
    if not ends:
        return ["no receipt"]
    return [
        f"end={end.end} planned={end.planned_end} sent={end.sent} planned={end.planned}"
        for end in ends
        if (end.end, end.sent) != (end.planned_end, end.planned) or not end.fired
    ]


def _ended(event: Mapping[str, Any]) -> StreamEnded:
    """A fact of the report, in which defaults are left out."""
    return StreamEnded(**{f.name: event[f.name] for f in fields(StreamEnded) if f.init and f.name in event})
