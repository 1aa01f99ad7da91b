"""The laboratory: nine checks of one tool, a line for each with what the server had received in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

PREFIX = "laboratory-"
"""What the ids of its scenarios begin with."""


@dataclass(frozen=True, slots=True)
class LaboratoryCheck:
    """One of the checks; ``outcome`` is ``passed``, ``failed`` or ``skipped``."""

    agent: str
    scenario: str
    outcome: str
    received: int  # requests, at every origin of the server


def lines(checks: Iterable[LaboratoryCheck]) -> list[str]:
    """A block for each agent: its checks in order, then ``checks=… passed=… total_received=…``."""
    found = list(checks)
    agents = list(dict.fromkeys(check.agent for check in found))
    made: list[str] = []
    for agent in agents:
        own = [check for check in found if check.agent == agent]
        made.append(f"laboratory{f' of {agent}' if len(agents) > 1 else ''}: does it really stop?")
        made += [f"{_WORDS[one.outcome]} {_name(one)} received={one.received}" for one in own]
        made += [_total(own)]
    return made


def as_json(checks: Iterable[LaboratoryCheck]) -> list[dict[str, Any]]:
    """The checks as data for the JSON report."""
    return [asdict(check) for check in checks]


_WORDS = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}


def _name(check: LaboratoryCheck) -> str:
    return check.scenario.removeprefix(PREFIX)


def _total(checks: list[LaboratoryCheck]) -> str:
    passed = sum(check.outcome == "passed" for check in checks)
    received = sum(check.received for check in checks)
    return f"checks={len(checks)} passed={passed} total_received={received}"
