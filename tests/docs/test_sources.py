"""What a rule names as its source is written where it says."""

from __future__ import annotations

import re

import pytest
from fences import ROOT

from pytest_agentguard import catalogue

RULES = catalogue.invariants()
FACTS = (ROOT / "docs" / "reference" / "wire-facts.md").read_text(encoding="utf-8")
ROWS = (ROOT / "docs" / "reference" / "requirements.md").read_text(encoding="utf-8")


def facts(source: str) -> str:
    """The parts of a source that are about the wire facts."""
    return "; ".join(part for part in source.split(";") if "wire facts" in part)


@pytest.mark.parametrize("id", RULES)
def test_every_section_and_ending_is_in_the_page_of_facts(id: str) -> None:
    source = facts(RULES[id].source)
    sections = re.findall(r"§(\d(?:\.\d)?)", source)
    endings = re.findall(r"E\d", source)

    assert [
        name for name in sections if not re.search(rf"^#+ §{re.escape(name)} ", FACTS, re.MULTILINE)
    ] == []
    assert [name for name in endings if f"\n| {name} |" not in FACTS] == []


@pytest.mark.parametrize("id", RULES)
def test_every_trap_and_every_defect_is_in_the_page_of_facts(id: str) -> None:
    source = RULES[id].source
    traps = [n for found in re.findall(r"traps? ([\d, and]+)", source) for n in re.findall(r"\d+", found)]
    defects = [
        n for found in re.findall(r"known defects? ([\d, and]+)", source) for n in re.findall(r"\d+", found)
    ]

    assert [n for n in traps if f"\n{n}. " not in FACTS] == []
    assert [n for n in defects if f"\n| {n} | " not in FACTS.partition("## Known defects")[2]] == []


@pytest.mark.parametrize("id", RULES)
def test_every_requirement_is_a_row(id: str) -> None:
    rows = re.findall(r"\b[A-Z]\d\d\b", RULES[id].source)

    assert [row for row in rows if f"\n| {row} | " not in ROWS] == []
