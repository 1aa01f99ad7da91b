"""Runs the cases of a battery: control first, many at a time, each judged from its own ledger."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pytest_agentguard._core import limits
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import AgentguardError
from pytest_agentguard._core.events import FetchStarted, RunEnded, StreamHeld
from pytest_agentguard._core.report import Check, check_of
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._core.verdict import Invariant, Outcome, Verdict, judge
from pytest_agentguard._runner.cases import CHAT, Case, CaseResult, Options, uncovered_cancel
from pytest_agentguard._runner.control import Control, read_control, read_fetch_control
from pytest_agentguard._runner.execution import WENT_AWAY, Execution, Stage, Way
from pytest_agentguard._runner.judging import control_verdict, first_bad, invalid, is_sweep, judge_case
from pytest_agentguard._runner.orders import Hello, RunOrder, RunReceipt
from pytest_agentguard._runner.turnstile import Turnstile
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.engine import Engine

_WATCHED = 3  # cases under way for each run that is active: most of them are only being watched
_PATIENCE = (1, 3, 9)  # factors on all times of a scenario, tried in turn while its run proves nothing


class Handle(Protocol):
    """A run that has been started."""

    def wait(self) -> RunReceipt:
        """Block until the run, its observation window included, is over."""


class Host(Protocol):
    """Runs orders for one agent: in a process of its own, or in this one."""

    def hello(self) -> Hello:
        """What the agent is and offers; blocks until it has been imported."""

    def start(self, order: RunOrder, on_ended: Callable[[str], None]) -> Handle:
        """Start a run; ``on_ended(lane)`` is called when the end of a lane has been recorded."""

    def close(self) -> None:
        """End everything that belongs to the agent."""


class Battery:
    """All cases of all agents. ``result`` blocks for one case and lets the ones planned after it go ahead."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        *,
        scenarios: Mapping[str, Scenario],
        dialects: Mapping[str, Dialect],
        invariants: Mapping[str, Invariant],
        scratch: Path,
        options: Options,
    ) -> None:
        self.options = options
        self._hosts = dict(hosts)
        self._scenarios = scenarios
        self._invariants = invariants
        self._engine = Engine()
        self._stage = Stage(
            dialects=dialects,
            engine=self._engine,
            scratch=scratch,
            options=options,
            active=threading.Semaphore(options.jobs),
        )
        self._pool = ThreadPoolExecutor(
            max_workers=_WATCHED * options.jobs, thread_name_prefix="agentguard-run"
        )
        self._order: list[Case] = []
        self._is_ahead = False
        self._futures: dict[Case, Future[CaseResult]] = {}
        self._controls: dict[tuple[str, str, str, str], Future[tuple[Control, Execution]]] = {}
        self._slots = {name: threading.BoundedSemaphore(self._overlap(name)) for name in hosts}
        self._lock = threading.Lock()
        self._turnstile = Turnstile(heavy_at_once=os.cpu_count() or 1)

    def _overlap(self, agent: str) -> int:
        """How many runs of an agent may be there at a time, those that are only watched included."""
        overlap = max(1, self._hosts[agent].hello().overlap)
        return overlap if overlap < limits.JOBS else _WATCHED * self.options.jobs

    # -- asking for results -----------------------------------------------------------------------

    def plan(self, cases: Sequence[Case]) -> None:
        """Say in which order results will be asked for, so that they can be worked on ahead of time."""
        self._order = list(cases)
        self._is_ahead = False

    def result(self, case: Case) -> CaseResult:
        """What ``case`` came to; blocks until it has run. What else is planned is started as well.

        It is not kept: ledgers are large, and whoever asks again has the case run again.
        """
        future = self._submit(case)
        if not self._is_ahead:
            self._is_ahead = True
            for other in self._order:
                self._submit(other)
        try:
            return future.result()
        finally:
            self._futures.pop(case, None)

    def _submit(self, case: Case) -> Future[CaseResult]:
        with self._lock:
            if case not in self._futures:
                self._futures[case] = self._pool.submit(self._run, case)
            return self._futures[case]

    def close(self) -> None:
        """Drop what has not started, end every agent, stop the endpoint's thread."""
        for host in self._hosts.values():
            host.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._engine.stop()

    # -- one case ---------------------------------------------------------------------------------

    def _run(self, case: Case) -> CaseResult:
        begun = clock.now()
        control, execution = self._control(case)
        if control.uncovered:
            return CaseResult(case=case, uncovered=control.uncovered)
        uncovered = uncovered_cancel(case.scenario, self._hosts[case.agent].hello().cancels)
        if uncovered:
            return CaseResult(case=case, uncovered=uncovered)
        if control.problem:
            reason = f"control failed: {control.problem}"
            verdicts = [control_verdict(control), *invalid(self._rules(case), reason)]
        elif case.scenario.control:
            verdicts = [control_verdict(control), *self._judge(case, execution)]
        else:
            with self._turnstile.pass_through(case.scenario.heavy):
                begun = clock.now()
                execution = self._execute(case)
                verdicts = self._judge(case, execution)
                execution, verdicts = self._confirmed(case, execution, verdicts)
        if not case.scenario.control:
            verdicts = [v for v in verdicts if v.invariant != "control"]
        seconds = clock.now() - begun
        result = CaseResult(
            case=case,
            checks=tuple(self._check(case, verdict, seconds) for verdict in verdicts),
            ledger=execution.ledger,
            seconds=seconds,
            label=execution.label,
        )
        self._stage.keep(case, result, execution)
        return result

    def _execute(self, case: Case, only: str = "", one_by_one: bool = False, first: int = 1) -> Execution:
        """Run the case; where a limit of ours ended it before the fault could show, again with more time.

        On a machine under load an agent may reach its deadline before its first request has arrived, or give
        up a response before it has fallen silent. Such a run is invalid, or gave a rule no occasion; it
        proves nothing either way, so that repeating it cannot hide anything. ``first`` is the patience to
        begin with.
        """
        with self._slots[case.agent]:
            way = Way(only, first, one_by_one or self._is_single(case.agent))
            execution = self._carry_out(case, way)
            for patience in (p for p in _PATIENCE if p > first):
                if not self._proved_nothing(case, execution):
                    break
                self._stage.drop(execution)
                execution = self._carry_out(case, replace(way, patience=patience))
            return execution

    def _proved_nothing(self, case: Case, execution: Execution) -> bool:
        """Whether a limit in seconds can be why a rule of the scenario has nothing to judge.

        It cannot where a response was held, or would be: the agent was there when it came to it. Nor where
        the run ended in a way that more time does not change.
        """
        if not case.scenario.is_timed or _went_by_itself(case, execution):
            return False
        outcomes = {verdict.outcome for verdict in self._judge(case, execution)}
        missed = Outcome.NOT_EXERCISED in outcomes and not execution.ledger.of(StreamHeld)
        return missed or Outcome.INVALID in outcomes

    def _is_single(self, agent: str) -> bool:
        """Whether the agent said that its runs must not overlap."""
        return self._hosts[agent].hello().overlap == 1

    def _carry_out(self, case: Case, way: Way) -> Execution:
        """One run; where it could not be carried out, an execution that says why and proves nothing."""
        try:
            return self._stage.execute(case, self._hosts[case.agent], way)
        except (AgentguardError, OSError) as problem:
            return Execution(problem=f"the run was not carried out: {type(problem).__name__}: {problem}")

    def _control(self, case: Case) -> tuple[Control, Execution]:
        """The control of this agent, dialect and mode: run once, by whoever needs it first."""
        modes = ("stream", "block") if case.mode == "both" else (case.mode,)
        found = [self._control_in(case, mode) for mode in modes]
        return next((pair for pair in found if pair[0].problem or pair[0].uncovered), found[0])

    def _control_in(self, case: Case, mode: str) -> tuple[Control, Execution]:
        key = (case.agent, case.scenario.surface, case.dialect, mode)
        with self._lock:
            mine = key not in self._controls
            future = self._controls.setdefault(key, Future())
        if mine:
            try:
                future.set_result(self._run_control(case, mode))
            except BaseException as problem:
                future.set_exception(problem)
        return future.result()

    def _run_control(self, case: Case, mode: str) -> tuple[Control, Execution]:
        hello = self._hosts[case.agent].hello()
        if hello.error:
            return Control(
                problem=f"agent could not be imported: {hello.error.strip().splitlines()[-1]}"
            ), Execution()
        surface = case.scenario.surface
        scenario = next((s for s in self._scenarios.values() if s.control and s.surface == surface), None)
        if scenario is None:
            return Control(problem=f"the battery has no control scenario for {surface}"), Execution()
        scenario = replace(scenario, seconds=limits.CONTROL_SECONDS)
        control_case = Case(case.agent, scenario, case.dialect, mode)
        execution = self._execute(control_case)
        if execution.problem and not len(execution.ledger):
            return Control(problem=execution.problem), execution
        if surface != CHAT:
            return read_fetch_control(execution.ledger), execution
        return read_control(execution.ledger, case.dialect, mode, plain=hello.plain), execution

    # -- judging ----------------------------------------------------------------------------------

    def _judge(self, case: Case, execution: Execution) -> list[Verdict]:
        return judge_case(case.scenario, self._rules(case), execution.ledger, execution.problem)

    def _rules(self, case: Case) -> list[Invariant]:
        return [self._invariants[id] for id in case.scenario.invariants]

    def _confirmed(
        self, case: Case, execution: Execution, verdicts: list[Verdict]
    ) -> tuple[Execution, list[Verdict]]:
        """What stands of a case once what may be due to company or load has been repeated.

        A healthy pace that killed an agent is tried again slowly: a busy machine looks the same. For a sweep
        that broke, the first bad lane is repeated alone, so that the story is about one run. If it keeps the
        rule when it is alone, the agent does not bear many jobs side by side; that is not what the rule is
        about, and the sweep is repeated lane by lane. So it is where a lane never asked for its reply: the
        agent may refuse a second job while the first is under way.
        """
        if case.scenario.paced and any(v.outcome is Outcome.VIOLATED for v in verdicts):
            self._stage.drop(execution)
            execution = self._execute(case, first=_PATIENCE[1])
            return execution, self._judge(case, execution)
        if is_sweep(case.scenario) and execution.missed and not self._is_single(case.agent):
            self._stage.drop(execution)
            execution = self._execute(case, one_by_one=True)
            verdicts = self._judge(case, execution)
        lane, bad = first_bad(verdicts) if is_sweep(case.scenario) else ("", None)
        if bad is None:
            return execution, verdicts
        alone = self._execute(case, only=lane)
        again = judge(alone.ledger, self._invariants[bad.invariant])
        if again.outcome is Outcome.VIOLATED:
            self._stage.drop(execution)
            verdicts = [replace(v, evidence=again.evidence) if v is bad else v for v in verdicts]
            return replace(alone, label=lane), verdicts
        self._stage.drop(alone)
        self._stage.drop(execution)
        execution = self._execute(case, one_by_one=True)
        verdicts = self._judge(case, execution)
        lane, bad = first_bad(verdicts)
        if bad is None:
            return execution, verdicts
        return replace(execution, ledger=execution.ledger.by_lane()[lane], label=lane), verdicts

    def _check(self, case: Case, verdict: Verdict, seconds: float) -> Check:
        return check_of(
            verdict,
            seconds=round(seconds, 3),
            agent=case.agent,
            surface=case.scenario.surface,
            scenario=case.scenario.id,
            dialect=case.dialect,
            mode=case.mode,
        )


def _went_by_itself(case: Case, execution: Execution) -> bool:
    """Whether the process of every run went away or was killed, or its fetch tool could not be made."""
    ends = execution.ledger.of(RunEnded)
    is_unmade = case.scenario.fetch is not None and not execution.ledger.of(FetchStarted)
    return bool(ends) and all(end.how in WENT_AWAY or (end.how == "raised" and is_unmade) for end in ends)
