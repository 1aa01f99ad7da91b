"""Carries out one case: an endpoint with its script, a run of the agent, and the ledger of both."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.scenario import Lane, Scenario, Setup
from pytest_agentguard._runner.cases import Case, CaseResult, Options
from pytest_agentguard._runner.orders import JobOrder, RunOrder
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.journal_file import JournalFile, read

if TYPE_CHECKING:
    from pytest_agentguard._runner.battery import Host

ALONE = ""  # the lane of a run that has no lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What a case left: its ledger, where its files are, and why it proves nothing, if so."""

    ledger: Ledger = field(default_factory=Ledger)
    problem: str = ""
    files: tuple[Path, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What every run of a battery shares: the endpoint's thread, the dialects, a scratch directory."""

    dialects: Mapping[str, Dialect]
    engine: Engine
    scratch: Path
    options: Options
    numbers: count[int] = field(default_factory=lambda: count(1))

    def execute(self, case: Case, host: Host, only: str = "") -> Execution:
        """Run the case; ``only`` names the one lane of a sweep that is repeated alone."""
        scenario = case.scenario
        seed = f"{self.options.seed}/{case.agent}/{case.name}"
        final = f"final-{CountedIds(seed).nonce()}"
        if not scenario.variants:
            script = self._lanes(scenario, self._setup(case, case.mode, final, seed), only)
            return self._run(case, host, case.mode, script, final, seed)
        parts = []
        for variant in scenario.variants:
            mode = variant.mode or ("stream" if case.mode == "both" else case.mode)
            assert scenario.vary is not None
            setup = self._setup(case, mode, final, seed)
            lane = Lane(variant.label, scenario.vary(setup, variant))
            parts.append(self._run(case, host, mode, (lane,), final, f"{seed}/{variant.label}"))
        return _merged(parts)

    def _setup(self, case: Case, mode: str, final: str, seed: str) -> Setup:
        dialect = self.dialects[case.dialect]
        strict = self.options.strict

        def measure(reply: Reply) -> object:
            from pytest_agentguard._core.planning import Setting, plan

            return plan(reply, Setting(dialect=dialect, mode=mode, ids=CountedIds(seed), strict=strict))

        return Setup(dialect=dialect, mode=mode, final=final, strict=strict, measure=measure)  # type: ignore[arg-type]

    def _lanes(self, scenario: Scenario, setup: Setup, only: str) -> Sequence[Lane]:
        if scenario.lanes is not None:
            lanes = scenario.lanes(setup)
            return [lane for lane in lanes if lane.label == only] if only else lanes
        assert scenario.script is not None
        return (Lane(ALONE, scenario.script(setup)),)

    def _run(
        self, case: Case, host: Host, mode: str, lanes: Sequence[Lane], final: str, seed: str
    ) -> Execution:
        folder = self.scratch / f"run-{next(self.numbers)}"
        folder.mkdir(parents=True)
        path = folder / "journal.jsonl"
        scenario = case.scenario
        wire = folder / "wire" if self.options.artifacts is not None else None
        journal = JournalFile(path)
        try:
            with Endpoint(
                journal,
                self.dialects,
                engine=self.engine,
                seed=seed,
                strict=self.options.strict,
                ceiling=_ceiling(lanes),
                wire=wire,
            ) as endpoint:
                for lane in lanes:
                    endpoint.play(*lane.replies, lane=lane.label)
                order = RunOrder(
                    id=folder.name,
                    jobs=tuple(_job(case, mode, lane, endpoint, final) for lane in lanes),
                    journal=path,
                    seconds=scenario.seconds,
                    watch=scenario.watch,
                    memory=scenario.memory,
                    agent=case.agent,
                    scenario=scenario.id,
                )
                handle = host.start(order, lambda lane: endpoint.release("run-ended", lane=lane))
                receipt = handle.wait()
                endpoint.release("run-ended")
                unplayed = endpoint.unplayed()
        finally:
            journal.close()
        (folder / "stdout.txt").write_text(receipt.stdout, errors="replace")
        (folder / "stderr.txt").write_text(receipt.stderr, errors="replace")
        problem = f"scripted and never requested: {unplayed[0]}" if unplayed else ""
        return Execution(ledger=read(path), problem=problem, files=(folder,))

    def keep(self, case: Case, result: CaseResult, execution: Execution) -> None:
        """Keep what a violated or invalid run wrote, if asked to, and delete the rest."""
        bad = any(check.outcome in ("violated", "invalid") for check in result.checks)
        target = self.options.artifacts
        for n, folder in enumerate(execution.files):
            if bad and target is not None:
                name = f"{case.agent}/{case.name}".replace(":", "_")
                shutil.copytree(folder, target / name / (f"{n}" if n else "."), dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


def _job(case: Case, mode: str, lane: Lane, endpoint: Endpoint, final: str) -> JobOrder:
    scenario = case.scenario
    return JobOrder(
        lane=lane.label,
        prompt=scenario.prompt,
        dialect=case.dialect,
        base_url=endpoint.base_url(case.dialect, lane=lane.label),
        root_url=endpoint.root_url + (f"/lane/{lane.label}" if lane.label else ""),
        mode=mode,
        tools=scenario.tools,
        limits=scenario.limits,
        final=final,
    )


def _ceiling(lanes: Sequence[Lane]) -> int:
    from pytest_agentguard._core import limits

    return limits.REQUESTS + 8 * len(lanes)


def _merged(parts: Sequence[Execution]) -> Execution:
    events = sorted((event for part in parts for event in part.ledger), key=lambda event: event.t)
    return Execution(
        ledger=Ledger(events),
        problem=next((part.problem for part in parts if part.problem), ""),
        files=tuple(folder for part in parts for folder in part.files),
    )
