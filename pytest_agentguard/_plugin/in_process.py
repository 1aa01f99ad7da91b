"""``agentguard.run_battery``: the battery for an agent that only a suite's own fixtures can build."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_agentguard import catalogue
from pytest_agentguard._core import report
from pytest_agentguard._core.contracts import DIALECTS, MODES, Adapter, Job
from pytest_agentguard._core.errors import UsageError, unknown_name
from pytest_agentguard._core.report import Check
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._plugin.fixtures import LEFTOVERS
from pytest_agentguard._runner.battery import Battery
from pytest_agentguard._runner.cases import Case, CaseResult, Options, cases_of
from pytest_agentguard._runner.in_process import InProcessHost
from pytest_agentguard._runner.load import look_over
from pytest_agentguard._runner.orders import Hello


@dataclass(frozen=True, slots=True)
class BatteryReport:
    """What a battery in this process came to."""

    results: tuple[CaseResult, ...]

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, in the order of the cases."""
        return tuple(check for result in self.results for check in result.checks)

    @property
    def totals(self) -> dict[str, int]:
        """How many checks had each outcome."""
        return report.totals(self.checks)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the agent was not asked, and why."""
        return tuple(dict.fromkeys(result.uncovered for result in self.results if result.uncovered))


def run_battery(
    run: Adapter | Callable[[Job], Any],
    *,
    scenarios: Iterable[str] = (),
    dialects: Iterable[str] = (),
    modes: Iterable[str] = (),
    backend: str = "asyncio",
    level: str = "should",
    strict: bool = False,
    seed: int = 0,
    jobs: int = 8,
) -> BatteryReport:
    """Judge ``run(job)`` in this process; raise ``AssertionError`` with the stories of all that fails.

    That nothing could be judged is a failure as well.

    ``scenarios``, ``dialects`` and ``modes`` restrict the battery (empty: everything). Each run is called in
    a thread of its own, an async ``run`` on a loop of its own (``backend``: asyncio or trio). ``level`` moves
    the line that fails, ``jobs`` is how many runs overlap. Scenarios that measure memory are left out, and
    nobody looks for what is left behind. Raises ``UsageError`` for names that do not exist.
    """
    __tracebackhide__ = True
    _check(run, backend, level, jobs)
    name = getattr(run, "name", "") or getattr(run, "__name__", "") or type(run).__name__
    host = InProcessHost(run, backend=backend, name=name)
    cases = _cases(host.hello(), scenarios, dialects, modes, strict)
    results = _results(name, host, cases, Options(seed=seed, jobs=jobs, strict=strict))
    stories = list(_stories(results, level))
    if stories:
        raise AssertionError("\n\n".join(stories))
    found = BatteryReport(results)
    if not found.checks:
        why = "; ".join(found.not_covered) or "the agent offers no such scenario, dialect and mode"
        raise AssertionError(f"cases={len(cases)} judged=0: {why}")
    return found


def _check(run: object, backend: str, level: str, jobs: int) -> None:
    if not isinstance(run, Adapter) and (isinstance(run, type) or not callable(run)):
        raise UsageError(f"run takes a function or an Adapter, not {run!r}")
    if isinstance(run, Adapter):
        look_over(run, run.name)
    if backend not in ("asyncio", "trio"):
        raise UsageError(f"backend takes asyncio or trio, not {backend!r}")
    if level not in ("must", "should", "may"):
        raise UsageError(f"level takes must, should or may, not {level!r}")
    if jobs < 1:
        raise UsageError(f"jobs takes a number from 1, not {jobs}")


def _cases(
    hello: Hello, scenarios: Iterable[str], dialects: Iterable[str], modes: Iterable[str], strict: bool
) -> list[Case]:
    """What was chosen and is offered."""
    chosen_dialects, chosen_modes = _known("dialect", dialects, DIALECTS), _known("mode", modes, MODES)
    chosen = _known("scenario", scenarios, tuple(catalogue.scenarios()))
    return cases_of(
        hello.name,
        (_seen_from_here(s) for s in catalogue.scenarios().values() if s.id in chosen and not s.memory),
        dialects=[d for d in chosen_dialects if d in hello.dialects],
        modes=[m for m in chosen_modes if m in hello.modes],
        surfaces=("chat",),
        strict=strict,
    )


def _seen_from_here(scenario: Scenario) -> Scenario:
    """Without the rule that nobody watches over: runs side by side in one process share all that is left."""
    return replace(scenario, invariants=tuple(id for id in scenario.invariants if id != LEFTOVERS))


def _results(name: str, host: InProcessHost, cases: list[Case], options: Options) -> tuple[CaseResult, ...]:
    with tempfile.TemporaryDirectory(prefix="agentguard-") as scratch:
        battery = Battery(
            {name: host},
            scenarios=catalogue.scenarios(),
            dialects=catalogue.dialects(),
            invariants=catalogue.invariants(),
            scratch=Path(scratch),
            options=options,
        )
        try:
            battery.plan(cases)
            return tuple(battery.result(case) for case in cases)
        finally:
            battery.close()


def _stories(results: Iterable[CaseResult], level: str) -> Iterator[str]:
    from pytest_agentguard.reports import story

    for result in results:
        case: Case = result.case
        failed = [check for check in result.checks if report.fails(check.outcome, check.level, level)]
        for check, also in story.grouped(failed):
            yield story.render(
                agent=case.agent,
                scenario=case.scenario.id,
                dialect=case.dialect,
                mode=case.mode,
                check=check,
                ledger=result.ledger,
                hint=case.scenario.hint,
                label=result.label,
                rerun=_rerun(case),
                also=also,
            )


def _rerun(case: Case) -> str:
    modes = "" if case.mode == "both" else f", modes=[{case.mode!r}]"
    strict = ", strict=True" if case.scenario.strict else ""
    chosen = f"scenarios=[{case.scenario.id!r}], dialects=[{case.dialect!r}]{modes}{strict}"
    return f"agentguard.run_battery({case.agent}, {chosen})"


def _known(kind: str, given: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)
    return names or known
