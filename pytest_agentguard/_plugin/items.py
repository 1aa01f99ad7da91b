"""What ``--agentguard`` adds to a session: a collector per agent, an item per case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from pytest_agentguard._core import report
from pytest_agentguard._core.verdict import Outcome
from pytest_agentguard._runner.cases import Case, CaseResult

COLLECTOR = "agentguard"


class Source(Protocol):
    """Where collectors and items get their cases and results."""

    specs: tuple[str, ...]
    level: str

    def cases(self, spec: str) -> list[Case]:
        """The cases of one agent."""

    def result(self, case: Case) -> CaseResult:
        """What a case came to; blocks."""

    def story(self, result: CaseResult) -> str:
        """The text of a case that fails."""


class BatteryFailed(Exception):
    """A case in which a rule was violated or the run proved nothing; its text is the story.

    ``brief`` is what fits on the line of a summary.
    """

    def __init__(self, story: str, brief: str) -> None:
        super().__init__(story)
        self.brief = brief


class BatteryCollector(pytest.Collector):
    """Everything that ``--agentguard`` adds to a session."""

    source: Source

    def collect(self) -> Iterator[pytest.Collector]:
        """One collector for each agent."""
        for spec in self.source.specs:
            node = AgentCollector.from_parent(self, name=spec, nodeid=f"{COLLECTOR}::{spec}")
            node.source = self.source
            yield node


class AgentCollector(pytest.Collector):
    """The cases of one agent."""

    source: Source

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each scenario, dialect and mode that the agent offers."""
        for case in self.source.cases(self.name):
            # as text: pytest parses it, as it does when it reads ids of failed tests from its cache
            item = BatteryItem.from_parent(self, name=case.name, nodeid=f"{self.nodeid}::{case.name}")
            item.case, item.source = case, self.source
            yield item


class BatteryItem(pytest.Item):
    """One case; it fails, is skipped or passes by the verdicts of its rules."""

    case: Case
    source: Source
    outcome: CaseResult | None = None

    def runtest(self) -> None:
        """Wait for the case and raise what it came to."""
        result = self.outcome = self.source.result(self.case)
        if result.uncovered:
            pytest.skip(f"not covered: {result.uncovered}")
        for check in result.checks:
            self.user_properties.append((f"agentguard:{check.invariant}", check.outcome))
        failed = [c for c in result.checks if report.fails(c.outcome, c.level, self.source.level)]
        if failed:
            brief = ", ".join(f"{check.invariant} {check.outcome}" for check in failed)
            raise BatteryFailed(self.source.story(result), brief)
        if result.checks and all(check.outcome == Outcome.NOT_EXERCISED for check in result.checks):
            rules = ", ".join(check.invariant for check in result.checks)
            pytest.skip(f"not exercised: the run gave no occasion to break {rules}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The story instead of a traceback."""
        if isinstance(excinfo.value, BatteryFailed):
            told = excinfo.getrepr(style="value")
            if told.reprcrash is not None:
                told.reprcrash.path, told.reprcrash.message = COLLECTOR, excinfo.value.brief
            return told
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Where it is: nowhere on disk."""
        return COLLECTOR, None, f"{self.case.agent} {self.case.name}"
