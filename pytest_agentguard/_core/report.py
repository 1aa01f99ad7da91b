"""The report model: one check is one rule in one run; plain data that travels in test reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.journal import as_dict
from pytest_agentguard._core.verdict import Level, Outcome, Verdict

SCHEMA = 1
_DEPTH = 32  # nested values deeper than this are left as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule in one run."""

    agent: str
    surface: str
    scenario: str
    dialect: str
    mode: str
    invariant: str
    level: str
    outcome: str
    summary: str = ""
    evidence: tuple[dict[str, Any], ...] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As in the JSON report."""
        return {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Check:
        """The reverse of ``to_json``."""
        return cls(**{**data, "evidence": tuple(data.get("evidence", ()))})


def check_of(verdict: Verdict, *, seconds: float = 0.0, **case: str) -> Check:
    """The check that a verdict makes in a case (agent, surface, scenario, dialect, mode)."""
    return Check(
        **case,
        invariant=verdict.invariant,
        level=str(verdict.level),
        outcome=str(verdict.outcome),
        summary=verdict.summary,
        evidence=tuple(shortened(as_dict(event)) for event in verdict.evidence),
        seconds=seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInfo:
    """An agent in the report."""

    name: str
    version: str = ""
    base_url: str = ""
    surfaces: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = field(default=())


def totals(checks: Iterable[Check]) -> dict[str, int]:
    """How many checks had each outcome; every outcome is named, also those that never came."""
    counted = Counter(check.outcome for check in checks)
    return {str(outcome): counted.get(str(outcome), 0) for outcome in Outcome}


def document(version: str, agents: Sequence[AgentInfo], checks: Sequence[Check]) -> dict[str, Any]:
    """The JSON report."""
    return {
        "schema": SCHEMA,
        "version": version,
        "agents": [{n: _plain(getattr(a, n)) for n in a.__dataclass_fields__} for a in agents],
        "checks": [check.to_json() for check in checks],
        "totals": totals(checks),
    }


def fails(outcome: str, level: str, threshold: str) -> bool:
    """Whether a check fails its item: invalid always, violated at ``threshold`` or worse."""
    if outcome == Outcome.INVALID:
        return True
    return outcome == Outcome.VIOLATED and Level(level).rank <= Level(threshold).rank


def shortened(value: Any, depth: int = 0) -> Any:
    """Evidence with every long text cut, saying how long it was: a body may have megabytes."""
    match value:
        case str() if len(value) > limits.REPORT_TEXT:
            return f"{value[: limits.REPORT_TEXT]}… ({len(value)} characters)"
        case Mapping() if depth < _DEPTH:
            return {name: shortened(inner, depth + 1) for name, inner in value.items()}
        case list() | tuple() if depth < _DEPTH:
            return [shortened(inner, depth + 1) for inner in value]
    return value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
