"""The text of ``--agentguard-list``: agents, scenarios, rules, faults, dialects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_agentguard._core.contracts import MODES
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.fault import Fault
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._core.verdict import Invariant
from pytest_agentguard.reports.text import clipped, columns, safe, sign, wrapped

Entry = tuple[str, str, str]  # name, note, what it is

_NOTES = {
    "scenarios": "surface, and what it is restricted to",
    "rules": "family, level",
    "faults": "what a correct client sees",
    "dialects": "where requests arrive",
}


def render(
    *,
    agents: Mapping[str, str],
    scenarios: Mapping[str, Scenario],
    rules: Mapping[str, Invariant],
    faults: Mapping[str, Fault],
    dialects: Mapping[str, Dialect],
    width: int = 100,
    unicode: bool = True,
) -> str:
    """Everything there is, each with its name and one line; ``agents`` maps a name to what it is."""
    sections = [
        ("agents", [(name, "", what) for name, what in agents.items()]),
        ("scenarios", [_scenario(id, scenario) for id, scenario in scenarios.items()]),
        ("rules", [_rule(id, rule) for id, rule in _by_family(rules)]),
        ("faults", [(id, _seen(fault), fault.summary) for id, fault in faults.items()]),
        ("dialects", [(id, ", ".join(d.paths), d.summary) for id, d in dialects.items()]),
    ]
    lines: list[str] = []
    for name, entries in sections:
        lines += [""] * bool(lines)
        note = f"  [{_NOTES[name]}]" if name in _NOTES and entries else ""
        lines.append(f"{name} ({len(entries)}){note}")
        lines += _table(entries, width, unicode)
    return "\n".join(clipped(line.rstrip(), width, unicode) for line in lines)


def _scenario(id: str, scenario: Scenario) -> Entry:
    notes = [scenario.surface]
    notes += ["control"] * scenario.control + ["strict"] * scenario.strict
    notes += scenario.dialects
    notes += [] if tuple(scenario.modes) == MODES else scenario.modes
    return id, ", ".join(notes), scenario.summary


def _rule(id: str, rule: Invariant) -> Entry:
    return id, f"{rule.family}, {rule.level}", rule.summary


def _seen(fault: Fault) -> str:
    return ", ".join([fault.seen, *([] if tuple(fault.modes) == MODES else fault.modes)])


def _by_family(rules: Mapping[str, Invariant]) -> Iterable[tuple[str, Invariant]]:
    return sorted(rules.items(), key=lambda entry: (entry[1].family, entry[0]))


def _table(entries: Iterable[Entry], width: int, unicode: bool) -> list[str]:
    """Two columns; what something is goes on below itself, or below the name where the terminal is narrow."""
    rows = [
        (safe(name, unicode), _own(f"{what}  [{note}]" if note else what, unicode))
        for name, note, what in entries
    ]
    first = max((columns(name) for name, _ in rows), default=0) + 4
    lines: list[str] = []
    for name, what in rows:
        if first > width // 2:
            lines += [f"  {name}", *(f"      {line}" for line in wrapped(what, width - 6, ""))]
            continue
        head, *rest = wrapped(what, width, " " * first)
        lines += [f"  {_padded(name, first - 2)}{head}", *rest]
    return lines


def _own(text: str, unicode: bool) -> str:
    """Our own words; docstrings mark names up for the pages, which a terminal does not read."""
    return safe(sign(text.replace("``", ""), unicode), unicode)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
