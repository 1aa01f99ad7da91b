"""The terminal: header lines before the battery, the summary after it; nothing is wider than the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from pytest_agentguard._core.verdict import Level, Outcome
from pytest_agentguard.reports.matrix import Line, Piece, legend, lines_of, matrix_of
from pytest_agentguard.reports.text import clipped, columns, safe, sign, wrapped


class Style(Protocol):
    """Marks text up for a terminal: ``style("text", red=True, bold=True)``."""

    def __call__(self, text: str, **markup: bool) -> str:
        """The text with its markup."""


def plain(text: str, **markup: bool) -> str:
    """No markup."""
    return text


def header(
    *,
    agent: str,
    version: str = "",
    distributions: Mapping[str, str] | None = None,
    seed: int | str,
    endpoint: str = "127.0.0.1",
    scenarios: int,
    dialects: int,
    modes: int,
    jobs: int,
    controls: tuple[int, int] | None = None,
    width: int = 100,
    unicode: bool = True,
) -> list[str]:
    """Two lines: agent, seed and endpoint; how much there is to do. ``distributions``: name to version."""
    name = _named(agent, version, distributions or {})
    counts = [(scenarios, "scenario"), (dialects, "dialect"), (modes, "mode")]
    product = " × ".join(f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts if count)
    done = f"; controls {controls[0]} of {controls[1]}" if controls is not None else ""
    lines = [f"agentguard: {name}, seed {seed}, endpoint on {endpoint}"]
    lines.append(f"agentguard: {product}, {jobs} at a time{done}" if scenarios else "agentguard: no scenario")
    return [part for line in lines for part in _prose(line, width, unicode, indent="  ")]


def _named(agent: str, version: str, distributions: Mapping[str, str]) -> str:
    """An agent with its version and its packages; what is the version of a package stands there alone."""
    if agent not in distributions and version in distributions.values():
        version = ""
    others = ((name, number) for name, number in distributions.items() if (name, number) != (agent, version))
    packages = ", ".join(f"{name} {number}".strip() for name, number in others)
    return " ".join(filter(None, [agent, version, f"({packages})" if packages else ""]))


def summary(
    document: Mapping[str, Any],
    *,
    width: int,
    unicode: bool = True,
    style: Style = plain,
    verbose: bool | int = False,
    families: Mapping[str, str] | None = None,
    level: str = Level.MAY,
) -> list[str]:
    """The whole summary of a JSON report: a matrix per agent, the totals, what was not covered.

    ``verbose`` names every check that was not exercised, invalid or known; ``families`` maps a rule to its
    family. Violations below ``level`` fail nothing and have no story, so they are named.
    """
    agents, checks = list(document["agents"]), list(document["checks"])
    names = list(dict.fromkeys(check["agent"] for check in checks))
    lines: list[Line] = []
    for name in names:
        own = [check for check in checks if check["agent"] == name]
        lines += [[(clipped(safe(name, unicode), width, unicode), {"bold": True})]] * (len(names) > 1)
        lines += _agent(own, width, unicode, families)
        lines.append([])
    lines += _listed(checks, width, unicode, named=bool(verbose), several=len(names) > 1)
    lines += [[piece] for piece in _totals(document, width, unicode)]
    lines += [[(line, {"light": True})] for line in _below(checks, level, width, unicode)]
    lines += [[(line, {})] for line in _not_covered(agents, width, unicode)]
    return [_styled(line, width, unicode, style) for line in lines]


def _agent(
    checks: Sequence[Mapping[str, Any]], width: int, unicode: bool, families: Mapping[str, str] | None
) -> list[Line]:
    matrix = matrix_of(checks)
    signs = "".join(text for text, _ in legend(matrix, unicode))
    key: list[Line] = [[(line, {"light": True})] for line in _prose(signs, width, unicode)]
    return [*lines_of(matrix, width=width, unicode=unicode, families=families), *key]


# -- totals -----------------------------------------------------------------------------------------


def _totals(document: Mapping[str, Any], width: int, unicode: bool) -> list[Piece]:
    counts = document["totals"]
    levels = Counter(c["level"] for c in document["checks"] if c["outcome"] == Outcome.VIOLATED)
    parts = []
    for outcome in (Outcome.HELD, Outcome.VIOLATED, Outcome.KNOWN, Outcome.NOT_EXERCISED, Outcome.INVALID):
        by_level = ", ".join(f"{level} {levels[level]}" for level in Level if levels[level])
        more = f" ({by_level})" if outcome is Outcome.VIOLATED and by_level else ""
        parts.append(f"{outcome} {counts.get(outcome, 0)}{more}")
    bad = counts.get(Outcome.VIOLATED, 0) or counts.get(Outcome.INVALID, 0)
    colour = {"red": True, "bold": True} if bad else {"green": True} if counts.get(Outcome.HELD) else {}
    return [(line, colour) for line in _joined(parts, sign(" · ", unicode), width)]


def _below(checks: Iterable[Mapping[str, Any]], level: str, width: int, unicode: bool) -> list[str]:
    """What is violated and fails nothing: how much, which rules, and how to read the stories."""
    quiet = [
        c for c in checks if c["outcome"] == Outcome.VIOLATED and Level(c["level"]).rank > Level(level).rank
    ]
    if not quiet:
        return []
    rules = ", ".join(sorted({check["invariant"] for check in quiet}))
    lowest = max((Level(check["level"]) for check in quiet), key=lambda level: level.rank)
    text = f"violated below --agentguard-level {level}, so not failed: {len(quiet)} ({rules}); "
    return _prose(f"{text}to read them: --agentguard-level {lowest}", width, unicode, indent="  ")


def _joined(parts: Iterable[str], between: str, width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(between) + len(part) <= width:
            lines[-1] += between + part
        else:
            lines.append(part)
    return lines


# -- what is listed ---------------------------------------------------------------------------------


def _listed(
    checks: Sequence[Mapping[str, Any]], width: int, unicode: bool, *, named: bool, several: bool
) -> list[Line]:
    """Rules that no run of an agent exercised; ``named``: every check neither held nor violated."""
    lines: list[str] = []
    if named:
        quiet = (Outcome.NOT_EXERCISED, Outcome.INVALID, Outcome.KNOWN)
        for check in sorted((c for c in checks if c["outcome"] in quiet), key=_check_key):
            case = f"{check['scenario']}[{check['dialect']}-{check['mode']}]"
            agent = f"{check['agent']} " if several else ""
            lines.append(f"{check['outcome']}: {agent}{check['invariant']} {case}")
        lines = [clipped(safe(line, unicode), width, unicode) for line in lines]
    else:
        for agent in dict.fromkeys(check["agent"] for check in checks):
            idle = _never_exercised([c for c in checks if c["agent"] == agent])
            if idle:
                who = f" by {agent}" if several else ""
                lines += _prose(f"not exercised{who}: {', '.join(idle)}", width, unicode, indent="  ")
    return [[(line, {"light": True})] for line in lines]


def _never_exercised(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    seen = {c["invariant"] for c in checks if c["outcome"] != Outcome.NOT_EXERCISED}
    return sorted({c["invariant"] for c in checks} - seen)


def _check_key(check: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("agent", "outcome", "invariant", "scenario", "dialect", "mode")
    return tuple(str(check[name]) for name in names)


def _not_covered(agents: Sequence[Mapping[str, Any]], width: int, unicode: bool) -> list[str]:
    lines: list[str] = []
    for agent in agents:
        missing = [str(what) for what in agent.get("not_covered", ())]
        if missing:
            who = f" of {agent['name']}" if len(agents) > 1 else ""
            plain_names = all(what.replace("-", "").isalpha() for what in missing)
            why = " (the adapter does not offer them)" if plain_names else ""
            between = ", " if plain_names else "; "
            lines += _prose(f"not covered{who}: {between.join(missing)}{why}", width, unicode, indent="  ")
    return lines


# -- lines ------------------------------------------------------------------------------------------


def _prose(text: str, width: int, unicode: bool, indent: str = "") -> list[str]:
    text = safe(sign(text, unicode), unicode)
    if columns(text) <= width:
        return [text]
    lines = wrapped(text, width, indent)
    return [clipped(line, width, unicode) for line in lines]


def _styled(line: Line, width: int, unicode: bool, style: Style) -> str:
    left, made = width, []
    for text, markup in line:
        text = clipped(text, left, unicode)
        left -= columns(text)
        made.append(style(text, **markup) if markup and text else text)
    return "".join(made)
