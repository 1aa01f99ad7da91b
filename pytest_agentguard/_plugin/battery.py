"""The pytest side of ``pytest --agentguard``: collects the cases, runs them, and hands the checks on."""

from __future__ import annotations

import random
import shlex
import shutil
import tempfile
from collections.abc import Generator, Iterable
from dataclasses import replace
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

import pytest

from pytest_agentguard import catalogue
from pytest_agentguard._core import report
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._plugin.agents import agent_specs
from pytest_agentguard._plugin.items import COLLECTOR, BatteryCollector, BatteryItem
from pytest_agentguard._plugin.reporting import Reporting
from pytest_agentguard._plugin.settings import LEVEL, Settings, has_unicode
from pytest_agentguard._runner.battery import Battery
from pytest_agentguard._runner.cases import Case, CaseResult, Options, cases_of
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard._runner.orders import Hello


class BatteryPlugin:
    """Registered when ``--agentguard`` is given; owns the battery of this process."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = Settings.of(config)
        self.level = self.settings.level
        self.is_worker = hasattr(config, "workerinput")
        if self.settings.seed is None:
            self.settings = replace(self.settings, seed=self._new_seed())
        self.specs: tuple[str, ...] = ()
        self._hosts: dict[str, AgentHost] = {}
        self._battery: Battery | None = None
        self._scratch: Path | None = None
        self._failed_imports = 0
        self._together: dict[pytest.Item, list[pytest.Item]] = {}  # items with nothing else between them
        self._planned: list[pytest.Item] = []
        self.settings.check_targets()
        self._reporting = Reporting(config, self.settings)
        if not self.is_worker:
            config.pluginmanager.register(self._reporting, "agentguard-reporting")

    def _new_seed(self) -> int:
        """The seed of this session; a worker of pytest-xdist takes the one that its controller prints."""
        handed = getattr(self.config, "workerinput", {}).get("agentguard_seed")
        return random.SystemRandom().randrange(10_000) if handed is None else int(handed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand the seed to a worker of pytest-xdist, so that all have the same one."""
        node.workerinput["agentguard_seed"] = self.settings.seed

    # -- collection -------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find out what is to be judged, and let the agents be imported while tests are collected."""
        try:
            self.specs = self._reporting.specs = agent_specs(self.config)
            for id in self.settings.dialects:
                catalogue.dialect(id)
            if not self.config.pluginmanager.hasplugin("dsession"):  # pytest-xdist's controller runs nothing
                self._hosts = {spec: AgentHost(spec, root=self.config.rootpath) for spec in self.specs}
            catalogue.read_all()  # while the agents are imported
        except UsageError as problem:
            raise pytest.UsageError(str(problem)) from None

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add our collector to what the session itself has collected."""
        found = yield
        if isinstance(collector, pytest.Session) and found.outcome == "passed":
            self._check_specs()
            node = BatteryCollector.from_parent(collector, name=COLLECTOR, nodeid=COLLECTOR)
            node.source = self
            found.result = [*([] if self.settings.only else found.result), node]
        return found

    def _check_specs(self) -> None:
        """End the session for a spec that is wrong, or has no case: it would prove nothing and be green."""
        for spec, host in self._hosts.items():
            hello = host.hello()
            problem = hello.error if hello.is_wrong_use else "" if hello.error else self._without_cases(spec)
            if not problem:
                continue
            if self.is_worker:
                self.config.workeroutput["agentguard"] = problem  # type: ignore[attr-defined]
            raise pytest.UsageError(problem)

    def _without_cases(self, spec: str) -> str:
        """That an agent has no case, and what it offers; empty where it has one."""
        hello = self._hosts[spec].hello()
        if self._offered(spec, hello):
            return ""
        offers = {"dialects": hello.dialects, "modes": hello.modes, "surfaces": hello.surfaces}
        said = " ".join(f"{name}={','.join(values)}" for name, values in offers.items())
        asked = f"; asked for {', '.join(self.settings.dialects)}" if self.settings.dialects else ""
        return f"agent {spec!r} has no case: it offers {said}{asked}"

    def cases(self, spec: str) -> list[Case]:
        """The cases of one agent; blocks until it has said what it offers."""
        hello = self._hosts[spec].hello()
        if hello.error:
            self._failed_imports += 1
            raise pytest.Collector.CollectError(f"agent {spec!r} cannot be imported\n{hello.error}")
        missing = [f"{id} (not offered)" for id in self._wanted if id not in hello.dialects]
        self._reporting.agents[spec] = _described(hello, missing)
        return self._offered(spec, hello)

    @property
    def _wanted(self) -> tuple[str, ...]:
        """The dialects that are asked for."""
        return self.settings.dialects or tuple(catalogue.dialects())

    def _offered(self, spec: str, hello: Hello) -> list[Case]:
        return cases_of(
            spec,
            catalogue.scenarios().values(),
            dialects=[id for id in self._wanted if id in hello.dialects],
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
                    artifacts=self.settings.artifacts,
                ),
            )
        return self._battery

    def result(self, case: Case) -> CaseResult:
        """What ``case`` came to; blocks."""
        return self.battery.result(case)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Learn the order of the items, so that the battery can work ahead of them."""
        if 0 < session.testsfailed == self._failed_imports:  # one agent that is broken stops no other
            session.config.option.continue_on_collection_errors = True
        for _, group in groupby(session.items, lambda item: isinstance(item, BatteryItem)):
            items = list(group)
            self._together |= dict.fromkeys(items, items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Let the battery work ahead up to the next test of somebody else, which has the process to itself.

        A worker of pytest-xdist knows only what it has been handed so far.
        """
        if isinstance(item, BatteryItem) and self.is_worker:
            handed = [item, *([nextitem] if nextitem is not None else []), *_queued(item.session)]
            self._plan(takewhile(lambda found: isinstance(found, BatteryItem), dict.fromkeys(handed)))
        elif isinstance(item, BatteryItem) and self._together[item] is not self._planned:
            self._planned = self._together[item]
            self._plan(self._planned)
        return (yield)

    def _plan(self, items: Iterable[pytest.Item]) -> None:
        self.battery.plan([item.case for item in items if isinstance(item, BatteryItem)])

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """Each case has a hard deadline of its own and waits for others: pytest-timeout leaves it alone."""
        return True if isinstance(item, BatteryItem) else None

    def story(self, result: CaseResult) -> str:
        """The text of a failed case: a story for each check that fails, one for all of the same reason."""
        from pytest_agentguard.reports import story

        case = result.case
        failed = [c for c in result.checks if report.fails(c.outcome, c.level, self.level)]
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
                also=also,
                width=self._reporting.width,
                unicode=has_unicode(self.config),
            )
            for check, also in story.grouped(failed)
        ]
        return "\n\n".join(stories)

    def _rerun(self, case: Case) -> str:
        is_clear = len(self.specs) == 1 and not self.config.getoption("agentguard_agent")
        agent = "" if is_clear else f" --agentguard-agent {shlex.quote(case.agent)}"
        level = f" --agentguard-level {self.level}" if self.level != LEVEL else ""
        strict = " --agentguard-strict" if self.settings.strict else ""
        seed = f" --agentguard-seed {self.settings.seed}"
        return f'pytest --agentguard{agent}{level}{strict}{seed} -k "{case.name}"'

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the checks into the report of the call, which pytest-xdist carries to its controller."""
        made = yield
        if isinstance(item, BatteryItem) and call.when == "call" and item.outcome is not None:
            checks = [check.to_json() for check in item.outcome.checks]
            laboratory = _received(item.outcome)
            self._reporting.attach(made, item.case.agent, checks, item.outcome.uncovered, laboratory)
            if made.skipped and isinstance(made.longrepr, tuple):  # a case is nowhere on disk
                made.longrepr = (COLLECTOR, None, made.longrepr[2])  # type: ignore[assignment]
            item.outcome = None  # its ledger is large, and nobody looks at it again
        return made

    # -- the end ------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End every agent."""
        self._close()

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


def _received(result: CaseResult) -> tuple[str, int] | None:
    """What the server had received in a case of the laboratory."""
    from pytest_agentguard._core.events import HttpReceived
    from pytest_agentguard.reports.laboratory import PREFIX

    id = result.case.scenario.id
    return (id, len(result.ledger.of(HttpReceived))) if id.startswith(PREFIX) else None


def _described(hello: Hello, missing: list[str]) -> dict[str, Any]:
    return {
        "name": hello.name,
        "version": hello.version,
        "versions": dict(hello.versions),
        "surfaces": list(hello.surfaces),
        "not_covered": missing,
    }


def _queued(session: pytest.Session) -> list[pytest.Item]:
    """What waits in the queue of a worker of pytest-xdist, as far as it can be seen: none is fine."""
    for plugin in session.config.pluginmanager.get_plugins():
        queue = getattr(getattr(plugin, "torun", None), "_items", None)
        if queue is not None:
            return [session.items[n] for n in tuple(queue) if isinstance(n, int) and n < len(session.items)]
    return []
