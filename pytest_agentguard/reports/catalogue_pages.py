"""Pages made from the catalogue: rules, scenarios, faults, and which mutant breaks which rule."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from pytest_agentguard._core.fault import Fault
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._core.verdict import Invariant
from pytest_agentguard.reports.event_lines import event_lines

_MADE = "<!-- Made from the catalogue by `python tests/docs/generate.py --write`; do not edit. -->"
_SEEN_BY_RUNS = "<!-- Made by running every mutant: `python tests/mutants/table.py --write`; do not edit. -->"
_LINE = 110  # columns of an example
_EXAMPLES = 2  # ledgers that break a rule, shown per rule
_EVENTS = 14  # facts shown of one example
_SPOILED = Reply().text("A word.").call("record", x="{nonce}")


def rules_page(rules: Mapping[str, Invariant], scenarios: Mapping[str, Scenario] | None = None) -> str:
    """One page of all rules, by family: what each says, when, why, how to repair, and what breaks it."""
    families: dict[str, list[tuple[str, Invariant]]] = {}
    for id, rule in sorted(rules.items()):
        families.setdefault(rule.family, []).append((id, rule))
    lines = ["# Rules", "", _MADE, "", f"{_count(len(rules), 'rule')} in {_families(len(families))}.", ""]
    for family, members in sorted(families.items()):
        lines += [f"- **{family}**: " + ", ".join(f"[{id}](#{id})" for id, _ in members)]
    for family, members in sorted(families.items()):
        lines += ["", f"## {family.capitalize()}"]
        for id, rule in members:
            lines += _rule(id, rule, _occasions_in(id, scenarios or {}))
    return "\n".join(lines) + "\n"


def scenarios_page(scenarios: Mapping[str, Scenario]) -> str:
    """One page of the battery, by surface, in the order in which it runs."""
    surfaces: dict[str, list[Scenario]] = {}
    for scenario in scenarios.values():
        surfaces.setdefault(scenario.surface, []).append(scenario)
    lines = ["# Scenarios", "", _MADE, "", f"{_count(len(scenarios), 'scenario')}. The control comes first."]
    for surface, members in surfaces.items():
        lines += ["", f"## {surface.capitalize()}", "", "| scenario | what happens | where | rules |"]
        lines.append("|---|---|---|---|")
        lines += [_scenario(scenario) for scenario in members]
    return "\n".join(lines) + "\n"


def faults_page(faults: Mapping[str, Fault]) -> str:
    """One page of the faults, by what a correct client sees."""
    lines = ["# Faults", "", _MADE, "", "A fault is a pure function from a reply to a spoiled reply:"]
    lines += ["`catalogue.fault(ID)(reply)`. The kind is what `ReplyStarted.fault` says to rules.", ""]
    lines += ["| fault | what goes wrong | a correct client sees | modes | kind |", "|---|---|---|---|---|"]
    for id, fault in faults.items():
        kind = f"`{fault(_SPOILED).fault}`" if fault(_SPOILED).fault else ""
        cells = (f"`{id}`", _cell(fault.summary), str(fault.seen), " and ".join(fault.modes), kind)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def mutants_page(table: Mapping[str, Collection[str]], rules: Mapping[str, Invariant]) -> str:
    """The table mutant × rule: ``table`` maps each mutant to the rules that it breaks."""
    lines = ["# Mutants", "", _SEEN_BY_RUNS, "", "Each mutant is the reference agent minus one guard.", ""]
    lines += ["| mutant | rules that it breaks |", "|---|---|"]
    lines += [f"| `{mutant}` | {_rule_links(sorted(broken))} |" for mutant, broken in sorted(table.items())]
    caught = {rule for broken in table.values() for rule in broken}
    missing = sorted(set(rules) - caught)
    said = ", ".join(f"`{id}`" for id in missing) or "none"
    lines += ["", f"Rules without a mutant: {said}."]
    return "\n".join(lines) + "\n"


# -- one rule ---------------------------------------------------------------------------------------


def _rule(id: str, rule: Invariant, scenarios: Sequence[str]) -> list[str]:
    rows = [
        ("level", str(rule.level)),
        ("occasion", rule.occasion),
        ("why", rule.why),
        ("source", _linked(rule.source)),
        ("remedy", rule.remedy),
        ("scenarios", ", ".join(f"`{name}`" for name in scenarios)),
    ]
    lines = ["", f"### {id}", "", rule.summary, ""]
    lines += [f"- **{name}**: {' '.join(text.split())}" for name, text in rows if text]
    breaks = list(rule.breaks)[:_EXAMPLES]
    if breaks:
        lines += ["", "Broken by:" if len(rule.breaks) == 1 else f"Broken by, {_of(breaks, rule.breaks)}:"]
    for ledger in breaks:
        lines += ["", "```text", *_example(ledger), "```"]
    return lines


def _linked(source: str) -> str:
    """A source with links to the pages that it names."""
    facts = source.replace("wire facts §", "[wire facts](wire-facts.md) §")
    facts = facts.replace("known defect ", "[known defect](wire-facts.md#known-defects) ")
    return re.sub(r"\b(requirements?) (?=[A-Z]\d)", r"[\1](requirements.md) ", facts)


def _of(shown: Sequence[object], there: Sequence[object]) -> str:
    return f"{len(shown)} of {len(there)}" if len(there) > len(shown) else f"{len(there)} ways"


def _example(ledger: Ledger) -> list[str]:
    events = list(ledger)
    lines = [line[2:] for line in event_lines(events[:_EVENTS], _LINE, hide={"invocation", "arguments_sent"})]
    more = len(events) - _EVENTS
    return [*lines, f"… {more} more"] if more > 0 else lines


def _occasions_in(id: str, scenarios: Mapping[str, Scenario]) -> list[str]:
    return [scenario.id for scenario in scenarios.values() if id in scenario.invariants]


# -- tables -----------------------------------------------------------------------------------------


def _scenario(scenario: Scenario) -> str:
    where = [", ".join(scenario.dialects)] if scenario.dialects else []
    modes = " and ".join(scenario.modes) if scenario.modes != ("both",) else "stream against block"
    where += [modes] * (scenario.fetch is None)
    where += ["strict only"] * scenario.strict + ["control"] * scenario.control
    cells = (
        f"`{scenario.id}`",
        _cell(scenario.summary),
        _cell(", ".join(where)),
        _rule_links(scenario.invariants),
    )
    return f"| {' | '.join(cells)} |"


def _rule_links(ids: Iterable[str]) -> str:
    return ", ".join(f"[{id}](rules.md#{id})" for id in ids)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _families(count: int) -> str:
    return f"{count} {'family' if count == 1 else 'families'}"
