"""Gathers the checks of a session, wherever they were made, and reports them: header, matrix, JSON."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentguard import __version__, catalogue
from pytest_agentguard._core import report
from pytest_agentguard._plugin.items import BatteryItem
from pytest_agentguard._plugin.settings import Settings, has_unicode

if TYPE_CHECKING:
    from pytest_agentguard.reports.laboratory import LaboratoryCheck

_WIDTH = 100  # columns where there is no terminal to ask


class Reporting:
    """The checks of this process, and of the workers of pytest-xdist where this is the controller."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self.specs: tuple[str, ...] = ()
        self.agents: dict[str, dict[str, Any]] = {}
        self._checks: dict[str, list[dict[str, Any]]] = {}
        self._laboratory: dict[str, LaboratoryCheck] = {}
        self._asked: dict[str, list[bool]] = {}  # by agent, for each case whether it could be asked

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        writer = getattr(reporter, "_tw", None)
        return int(getattr(writer, "fullwidth", _WIDTH))

    def attach(
        self,
        made: pytest.TestReport,
        spec: str,
        checks: Sequence[Any],
        uncovered: str,
        laboratory: tuple[str, int] | None = None,
    ) -> None:
        """Put what a case came to into its test report; of one of the laboratory, its id and its requests."""
        data = {
            "spec": spec,
            "agent": self.agents.get(spec, {}),
            "checks": checks,
            "uncovered": uncovered,
            "laboratory": laboratory,
        }
        made.agentguard = json.dumps(data)  # type: ignore[attr-defined]  # plain text survives any transport

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the checks of a case."""
        text = getattr(report, "agentguard", None)
        if text is None:
            return
        data = json.loads(text)
        self._checks[report.nodeid] = data["checks"]
        if data["laboratory"] is not None:
            from pytest_agentguard.reports.laboratory import LaboratoryCheck

            scenario, received = data["laboratory"]
            self._laboratory[report.nodeid] = LaboratoryCheck(
                data["spec"], scenario, report.outcome, received
            )
        self._asked.setdefault(data["spec"], []).append(not data["uncovered"])
        agent = self.agents.setdefault(data["spec"], dict(data["agent"]))
        if data["uncovered"] and data["uncovered"] not in agent.setdefault("not_covered", []):
            agent["not_covered"].append(data["uncovered"])

    def pytest_report_header(self) -> list[str]:
        """What is about to be judged, where pytest-xdist collects it elsewhere."""
        from pytest_agentguard.reports.text import clipped, safe

        if not self._config.pluginmanager.hasplugin("dsession"):
            return []
        unicode = has_unicode(self._config)
        agents = f"agentguard: {', '.join(self.specs)}, seed {self._settings.seed}, endpoint on 127.0.0.1"
        jobs = f"agentguard: {self._settings.jobs} at a time in each worker"
        return [clipped(safe(line, unicode), self.width, unicode) for line in (agents, jobs)]

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """What is about to be judged."""
        from pytest_agentguard.reports import terminal

        lines: list[str] = []
        if self._config.option.collectonly and self._config.get_verbosity() < 0:
            return lines  # what is left are the ids, for other programs
        for spec, agent in self.agents.items():
            cases = [i.case for i in items if isinstance(i, BatteryItem) and i.case.agent == spec]
            lines += terminal.header(
                agent=agent["name"] or spec,
                version=agent["version"],
                distributions=agent["versions"],
                seed=self._settings.seed or 0,
                scenarios=len({case.scenario.id for case in cases}),
                dialects=len({case.dialect for case in cases if case.dialect}),
                modes=len({mode for case in cases if case.mode for mode in _modes(case.mode)}),
                jobs=self._settings.jobs,
                width=self.width,
                unicode=has_unicode(self._config),
            )
        return lines

    def document(self) -> dict[str, Any]:
        """The JSON report so far."""
        checks = [report.Check.from_json(data) for found in self._checks.values() for data in found]
        agents = [
            report.AgentInfo(
                name=spec,
                version=agent.get("version", ""),
                base_url="http://127.0.0.1",
                surfaces=tuple(agent.get("surfaces", ())),
                not_covered=tuple(sorted(agent.get("not_covered", ()))),
            )
            for spec, agent in self.agents.items()
        ]
        from pytest_agentguard.reports import laboratory

        made = report.document(__version__, agents, checks)
        if self._laboratory:
            made["laboratory"] = laboratory.as_json(self._in_order())
        return made

    def _in_order(self) -> list[LaboratoryCheck]:
        """The checks of the laboratory, in the order of its scenarios, whoever finished first."""
        order = {id: n for n, id in enumerate(catalogue.scenarios())}
        return sorted(self._laboratory.values(), key=lambda check: (check.agent, order[check.scenario]))

    @property
    def unjudged(self) -> list[str]:
        """Each agent that could be asked in none of its cases, and why: a session that proves nothing."""
        return [
            f"agent {spec}: cases={len(asked)} judged=0: {'; '.join(self.agents[spec]['not_covered'])}"
            for spec, asked in self._asked.items()
            if not any(asked)
        ]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Write the JSON report, after the workers have finished."""
        yield
        if self.unjudged and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._settings.json is not None:
            from pytest_agentguard.reports import json_report

            try:
                json_report.write(self._settings.json, self.document())
            except OSError as problem:
                raise pytest.UsageError(f"--agentguard-json: {problem}") from None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The matrix, the totals and what was not covered."""
        from pytest_agentguard.reports import laboratory, terminal
        from pytest_agentguard.reports.text import safe

        document = self.document()
        if not document["checks"] and not any(agent["not_covered"] for agent in document["agents"]):
            return
        if self._config.option.collectonly:
            return
        writer = terminalreporter._tw
        terminalreporter.section("agentguard")
        for line in terminal.summary(
            document,
            width=self.width,
            unicode=has_unicode(self._config),
            style=lambda text, **markup: writer.markup(text, **markup),
            verbose=self._config.get_verbosity() > 0,
            families={id: rule.family for id, rule in catalogue.invariants().items()},
            level=self._settings.level,
        ):
            terminalreporter.line(line)
        for line in laboratory.lines(self._in_order()):
            terminalreporter.line(safe(line, has_unicode(self._config)))
        for problem in self.unjudged:
            terminalreporter.line(safe(problem, has_unicode(self._config)), red=True)


def _modes(mode: str) -> tuple[str, ...]:
    return ("stream", "block") if mode == "both" else (mode,)
