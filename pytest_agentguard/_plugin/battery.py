"""The pytest side of ``pytest --agentguard``: a collector, its items, the reports of the session."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentguard import __version__, catalogue
from pytest_agentguard._core import report
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._core.verdict import Outcome
from pytest_agentguard._plugin.agents import agent_specs
from pytest_agentguard._plugin.settings import Settings
from pytest_agentguard._runner.battery import Battery
from pytest_agentguard._runner.cases import Case, CaseResult, Options, cases_of
from pytest_agentguard._runner.host import AgentHost

COLLECTOR = "agentguard"


class BatteryFailed(Exception):
    """A case in which a rule was violated or the run proved nothing; its text is the story."""


class BatteryCollector(pytest.Collector):
    """Everything that ``--agentguard`` adds to a session."""

    plugin: BatteryPlugin

    def collect(self) -> Iterator[pytest.Collector]:
        """One collector for each agent."""
        for spec in self.plugin.specs:
            node = AgentCollector.from_parent(self, name=spec, nodeid=f"{COLLECTOR}::{spec}")
            node.plugin = self.plugin
            yield node


class AgentCollector(pytest.Collector):
    """The cases of one agent."""

    plugin: BatteryPlugin

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each scenario, dialect and mode that the agent offers."""
        for case in self.plugin.cases(self.name):
            item = BatteryItem.from_parent(self, name=case.name)
            item.case, item.plugin = case, self.plugin
            yield item


class BatteryItem(pytest.Item):
    """One case; it fails, is skipped or passes by the verdicts of its rules."""

    case: Case
    plugin: BatteryPlugin
    outcome: CaseResult | None = None

    def runtest(self) -> None:
        """Wait for the case and raise what it came to."""
        result = self.outcome = self.plugin.battery.result(self.case)
        if result.uncovered:
            pytest.skip(f"not covered: {result.uncovered}")
        for check in result.checks:
            self.user_properties.append((f"agentguard:{check.invariant}", check.outcome))
        level = self.plugin.settings.level
        if any(report.fails(check.outcome, check.level, level) for check in result.checks):
            raise BatteryFailed(self.plugin.story(result))
        if result.checks and all(check.outcome == Outcome.NOT_EXERCISED for check in result.checks):
            pytest.skip(
                "not exercised: the run gave no occasion to break "
                + ", ".join(c.invariant for c in result.checks)
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The story instead of a traceback."""
        if isinstance(excinfo.value, BatteryFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Where it is: nowhere on disk."""
        agent, case = self.case.agent, self.case
        return COLLECTOR, None, f"{agent} · {case.scenario.id} · {case.dialect}, {case.mode}"


class BatteryPlugin:
    """Registered when ``--agentguard`` is given; owns the battery of this process."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = Settings.of(config)
        self.is_worker = hasattr(config, "workerinput")
        if self.settings.seed is None:
            seed = random.SystemRandom().randrange(10_000)
            config.option.agentguard_seed = seed  # pytest-xdist hands the options to its workers
            self.settings = Settings.of(config)
        self.specs: tuple[str, ...] = ()
        self._hosts: dict[str, AgentHost] = {}
        self._battery: Battery | None = None
        self._scratch: Path | None = None
        self._checks: dict[str, list[dict[str, Any]]] = {}
        self._agents: dict[str, dict[str, Any]] = {}

    # -- collection -------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add our collector to what the session itself has collected."""
        found = yield
        if isinstance(collector, pytest.Session) and found.outcome == "passed":
            self._start_hosts()
            node = BatteryCollector.from_parent(collector, name=COLLECTOR, nodeid=COLLECTOR)
            node.plugin = self
            others = [] if self.settings.only else list(found.result)
            found.result = [*others, node]
        return found

    def _start_hosts(self) -> None:
        try:
            self.specs = agent_specs(self.config)
            for id in self.settings.dialects:
                catalogue.dialect(id)
        except UsageError as problem:
            raise pytest.UsageError(str(problem)) from None
        root = self.config.rootpath
        self._hosts = {spec: AgentHost(spec, root=root) for spec in self.specs if spec not in self._hosts}

    def cases(self, spec: str) -> list[Case]:
        """The cases of one agent; blocks until it has said what it offers."""
        hello = self._hosts[spec].hello()
        if hello.error and not hello.name:
            raise pytest.Collector.CollectError(f"agent {spec!r} could not be imported\n{hello.error}")
        dialects = [
            d
            for d in catalogue.dialects()
            if d in (self.settings.dialects or hello.dialects) and d in hello.dialects
        ]
        self._agents[spec] = {
            "name": hello.name,
            "version": hello.version,
            "base_url": "http://127.0.0.1",
            "surfaces": list(hello.surfaces),
            "not_covered": [],
        }
        return cases_of(
            spec,
            catalogue.scenarios().values(),
            dialects=dialects,
            modes=hello.modes,
            surfaces=hello.surfaces,
            strict=self.settings.strict,
        )

    # -- running ----------------------------------------------------------------------------------

    @property
    def battery(self) -> Battery:
        """The battery of this process, made when the first item needs it."""
        if self._battery is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="agentguard-"))
            self._battery = Battery(
                self._hosts,
                scenarios=catalogue.scenarios(),
                dialects=catalogue.dialects(),
                invariants=catalogue.invariants(),
                scratch=self._scratch,
                options=Options(
                    seed=self.settings.seed or 0,
                    jobs=self.settings.jobs,
                    strict=self.settings.strict,
                    dialects=self.settings.dialects,
                    artifacts=self.settings.artifacts,
                ),
            )
        return self._battery

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Tell the battery the order, so that it can work ahead; a worker of xdist learns it bit by bit."""
        cases = [item.case for item in session.items if isinstance(item, BatteryItem)]
        if cases and not self.is_worker and not session.config.option.collectonly:
            self.battery.plan(cases)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """In a worker of pytest-xdist, work ahead on what this worker has been handed so far."""
        if self.is_worker:
            ahead = [item, *([nextitem] if nextitem is not None else []), *_queued(item.session)]
            self.battery.plan([i.case for i in dict.fromkeys(ahead) if isinstance(i, BatteryItem)])
        return (yield)

    def story(self, result: CaseResult) -> str:
        """The text of a failed case: one story for each check that fails."""
        from pytest_agentguard.reports import story

        case, level = result.case, self.settings.level
        stories = [
            story.render(
                agent=case.agent,
                scenario=case.scenario.id,
                dialect=case.dialect,
                mode=case.mode,
                check=check,
                ledger=result.ledger,
                hint=case.scenario.hint,
                label=result.label,
                rerun=self._rerun(case),
                unicode=self.settings.unicode,
            )
            for check in result.checks
            if report.fails(check.outcome, check.level, level)
        ]
        return "\n\n".join(stories)

    def _rerun(self, case: Case) -> str:
        agent = "" if case.agent == "reference" else f" --agentguard-agent {case.agent}"
        strict = " --agentguard-strict" if case.scenario.strict else ""
        return f'pytest --agentguard{agent}{strict} --agentguard-seed {self.settings.seed} -k "{case.name}"'

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the checks into the report of the call, which pytest-xdist carries to its controller."""
        made = yield
        if isinstance(item, BatteryItem) and call.when == "call" and item.outcome is not None:
            made.agentguard = {  # type: ignore[attr-defined]
                "spec": item.case.agent,
                "agent": self._agents.get(item.case.agent, {}),
                "checks": [check.to_json() for check in item.outcome.checks],
                "not_covered": item.outcome.uncovered,
            }
        return made

    # -- reporting, on the controller -----------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the checks, wherever they were made."""
        data = getattr(report, "agentguard", None)
        if data is None or self.is_worker:
            return
        self._checks[report.nodeid] = data["checks"]
        agent = self._agents.setdefault(data["spec"], dict(data["agent"]))
        if data["not_covered"] and data["not_covered"] not in agent.setdefault("not_covered", []):
            agent["not_covered"].append(data["not_covered"])

    def document(self) -> dict[str, Any]:
        """The JSON report so far."""
        checks = [report.Check.from_json(data) for found in self._checks.values() for data in found]
        agents = [
            report.AgentInfo(
                name=agent.get("name") or spec,
                version=agent.get("version", ""),
                base_url=agent.get("base_url", ""),
                surfaces=tuple(agent.get("surfaces", ())),
                not_covered=tuple(agent.get("not_covered", ())),
            )
            for spec, agent in self._agents.items()
        ]
        return report.document(__version__, agents, checks)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        """Write the JSON report and end every agent."""
        try:
            if self.settings.json is not None and not self.is_worker:
                from pytest_agentguard.reports import json_report

                json_report.write(self.settings.json, self.document())
        finally:
            self._close()
        yield

    def pytest_unconfigure(self) -> None:
        """End every agent also where the session never finished."""
        self._close()

    def _close(self) -> None:
        battery, self._battery = self._battery, None
        if battery is not None:
            battery.close()
        for host in self._hosts.values():
            host.close()
        self._hosts = {}
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The matrix, the totals and what was not covered."""
        from pytest_agentguard.reports import terminal

        document = self.document()
        if not document["checks"] and not document["agents"]:
            return
        writer = terminalreporter._tw
        terminalreporter.section("agentguard")
        for line in terminal.summary(
            document,
            width=writer.fullwidth,
            unicode=self.settings.unicode,
            style=lambda text, **markup: writer.markup(text, **markup),
            verbose=self.config.get_verbosity() > 0,
        ):
            terminalreporter.line(line)


def _queued(session: pytest.Session) -> list[pytest.Item]:
    """The items that wait in the queue of a worker of pytest-xdist, as far as it can be seen: none is fine."""
    for plugin in session.config.pluginmanager.get_plugins():
        queue = getattr(getattr(plugin, "torun", None), "_items", None)
        if queue is not None:
            return [session.items[n] for n in tuple(queue) if isinstance(n, int) and n < len(session.items)]
    return []
