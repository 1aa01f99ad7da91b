"""Carries out one case: an endpoint with its script, a run of the agent, and the ledger of both."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.contracts import ToolSpec
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.events import HttpReceived, RequestReceived, RunEnded, RunStarted, WatchEnded
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.plan import Hold, Move, Pause, Plan
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.scenario import Lane, Scenario, Setup, Variant
from pytest_agentguard._runner.cases import Case, CaseResult, Options
from pytest_agentguard._runner.orders import JobOrder, RunOrder
from pytest_agentguard._runner.servers import Servers
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.journal_file import JournalFile, read

if TYPE_CHECKING:
    from pytest_agentguard._runner.battery import Host

_AT_ONCE = 64  # jobs of one process that go on side by side
_KEPT = ("journal.jsonl", "stdout.txt", "stderr.txt", "wire")
WENT_AWAY = ("exited", "signalled", "killed")  # how a run ended whose process is gone
ALONE = ""  # the lane of a run that has no lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What a case left: its ledger, where its files are, and why it proves nothing, if so."""

    ledger: Ledger = field(default_factory=Ledger)
    problem: str = ""
    missed: bool = False  # a reply of the script was never requested
    files: tuple[Path, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """How a case is carried out.

    ``only`` names the one lane of a sweep that is repeated alone; ``patience`` multiplies every limit in
    seconds, and the holds accordingly; ``one_by_one`` lets the lanes of one process not overlap.
    """

    only: str = ""
    patience: int = 1
    one_by_one: bool = False


DEFAULT_WAY = Way()


@dataclass(frozen=True, slots=True)
class Act:
    """One run of a case: in which mode, with which lanes, under which names."""

    case: Case
    mode: str
    lanes: Sequence[Lane]
    final: str
    way: Way

    def order(self, folder: Path, servers: Servers) -> RunOrder:
        """What the agent's host is asked to do."""
        scenario = self.case.scenario
        return RunOrder(
            id=folder.name,
            jobs=tuple(self._job(lane.label, servers) for lane in self.lanes),
            journal=folder / "journal.jsonl",
            seconds=scenario.seconds,
            watch=scenario.watch,
            at_once=1 if self.way.one_by_one else _AT_ONCE,
            memory=scenario.memory,
            agent=self.case.agent,
            scenario=scenario.id,
            cancel=scenario.cancel,
            barrier=servers.barrier(self.lanes[0].label),
        )

    def _job(self, lane: str, servers: Servers) -> JobOrder:
        scenario, dialect = self.case.scenario, self.case.dialect
        if servers.endpoint is None:
            nowhere, fetch = "", servers.fetch_order()
            return JobOrder(
                lane=lane,
                prompt="",
                dialect="",
                base_url=nowhere,
                root_url=nowhere,
                mode="",
                limits=scenario.limits,
                fetch=fetch,
            )
        model = servers.endpoint.model_endpoint(dialect, lane)
        return JobOrder(
            lane=lane,
            prompt=scenario.prompt,
            dialect=dialect,
            base_url=model.base_url,
            root_url=model.root_url,
            mode=self.mode,
            tools=scenario.tools,
            limits=scenario.limits,
            final=self.final,
        )


class Turn:
    """One of the runs that may be active at a time, given back when the last of its jobs has ended."""

    def __init__(self, active: threading.Semaphore, jobs: int) -> None:
        self._active = active
        self._jobs = jobs

    def __enter__(self) -> Turn:
        self._active.acquire()
        return self

    def ended(self) -> None:
        """One job has ended; called from one thread only."""
        self._jobs -= 1
        if self._jobs == 0:
            self._active.release()

    def __exit__(self, *_: object) -> None:
        if self._jobs > 0:
            self._jobs = 0
            self._active.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What every run of a battery shares: the endpoint's thread, the dialects, a scratch directory."""

    dialects: Mapping[str, Dialect]
    engine: Engine
    scratch: Path
    options: Options
    active: threading.Semaphore  # a run holds it until its jobs have ended; being watched costs nothing
    numbers: count[int] = field(default_factory=lambda: count(1))

    def execute(self, case: Case, host: Host, way: Way = DEFAULT_WAY) -> Execution:
        """Run the case in this way and give what it left."""
        scenario = case.scenario if way.patience == 1 else _patient(case.scenario, way.patience)
        case = Case(case.agent, scenario, case.dialect, case.mode)
        seed = f"{self.options.seed}/{case.agent}/{case.name}"
        final = f"final-{CountedIds(seed).nonce()}"
        if not scenario.variants:
            return self._perform(case, case.mode, final, seed, way, host)
        parts = []
        for variant in scenario.variants:
            mode = variant.mode or ("stream" if case.mode == "both" else case.mode)
            parts.append(self._perform(case, mode, final, seed, way, host, variant))
        return _merged(parts)

    def _setup(self, case: Case, mode: str, final: str, seed: str, elsewhere: str) -> Setup:
        dialect = self.dialects[case.dialect]
        strict = self.options.strict

        def measure(reply: Reply) -> Plan:
            return plan(reply, Setting(dialect=dialect, mode=mode, ids=CountedIds(seed), strict=strict))

        return Setup(
            dialect=dialect, mode=mode, final=final, strict=strict, measure=measure, elsewhere=elsewhere
        )

    def _lanes(
        self, case: Case, setup: Callable[[], Setup], only: str, variant: Variant | None
    ) -> Sequence[Lane]:
        scenario = case.scenario
        if scenario.fetch is not None:
            return (Lane(ALONE, ()),)
        if variant is not None:
            assert scenario.vary is not None
            return (Lane(variant.label, scenario.vary(setup(), variant)),)
        if scenario.lanes is not None:
            lanes = scenario.lanes(setup())
            return [lane for lane in lanes if lane.label == only] if only else lanes
        assert scenario.script is not None
        return (Lane(ALONE, scenario.script(setup())),)

    def _perform(
        self,
        case: Case,
        mode: str,
        final: str,
        seed: str,
        way: Way,
        host: Host,
        variant: Variant | None = None,
    ) -> Execution:
        """Play one act: open the servers with the script, run the agent, close, read what was recorded."""
        folder = self.scratch / f"run-{next(self.numbers)}"
        folder.mkdir(parents=True)
        journal = JournalFile(folder / "journal.jsonl")
        try:
            with self._servers(case, way, journal, folder, seed) as servers:
                elsewhere = servers.elsewhere
                lanes = self._lanes(
                    case, lambda: self._setup(case, mode, final, seed, elsewhere), way.only, variant
                )
                act = Act(case, mode, lanes, final, way)
                servers.play(lanes)
                with Turn(self.active, len(lanes)) as turn:

                    def ended(lane: str) -> None:
                        servers.release("run-ended", lane=lane)
                        turn.ended()

                    receipt = host.start(act.order(folder, servers), ended).wait()
                servers.release("run-ended")
                unplayed, received = servers.unplayed(), servers.received
        finally:
            journal.close()
        (folder / "stdout.txt").write_text(receipt.stdout, errors="replace")
        (folder / "stderr.txt").write_text(receipt.stderr, errors="replace")
        ledger = read(folder / "journal.jsonl")
        problem = f"scripted and never requested: {unplayed[0]}" if unplayed else receipt.error
        problem = problem or _torn(ledger, lanes, received)
        return Execution(ledger=ledger, problem=problem, missed=bool(unplayed), files=(folder,))

    def _servers(self, case: Case, way: Way, journal: JournalFile, folder: Path, seed: str) -> Servers:
        return Servers(
            case.scenario,
            journal,
            self.dialects,
            engine=self.engine,
            seed=seed,
            strict=self.options.strict,
            hold_limit=_hold_limit(case.scenario, way),
            wire=folder / "wire" if self.options.artifacts is not None else None,
        )

    def keep(self, case: Case, result: CaseResult, execution: Execution) -> None:
        """Keep what a violated or invalid run wrote, if asked to, and delete the rest."""
        bad = any(check.outcome in ("violated", "invalid") for check in result.checks)
        target = self.options.artifacts
        if bad and target is not None:
            home = target / _segment(case.agent) / _segment(case.name)
            for n, folder in enumerate(execution.files):
                _copy(folder, home / str(n) if n else home)
        self.drop(execution)

    def drop(self, execution: Execution) -> None:
        """Delete what a run wrote."""
        for folder in execution.files:
            shutil.rmtree(folder, ignore_errors=True)


def _hold_limit(scenario: Scenario, way: Way) -> float | None:
    """How long a response is held at most; None leaves it to the script, where no limit was stretched."""
    if scenario.fetch is None and (way.patience == 1 or not scenario.limits.times()):
        return None
    decisive = max if scenario.fetch is None else min  # of several, the shortest has to end a fetch
    limit = decisive(scenario.limits.times().values(), default=0.0)
    return max(limits.HOLD_SECONDS, limits.HOLD_FACTOR * limit)


def _torn(ledger: Ledger, lanes: Sequence[Lane], received: int) -> str:
    """What is missing of a journal that the agent has removed or cut, or that found no room on the disk.

    Every lane has a start and an end; only one whose process went away may not have come to its start. The
    servers have in memory how many requests they ``received``.
    """
    known = {lane.label for lane in lanes}
    started, ended = ({fact.lane for fact in ledger.of(kind)} for kind in (RunStarted, RunEnded))
    gone = {end.lane for end in ledger.of(RunEnded) if end.how in WENT_AWAY}
    acted = known & {request.lane for request in ledger.of(RequestReceived)}
    recorded = len(ledger.of(RequestReceived)) + len(ledger.of(HttpReceived))
    is_whole = acted | (known - gone) <= started and known <= ended and received <= recorded
    if is_whole and ledger.first(WatchEnded) is not None:
        return ""
    return "the journal of the run is not whole: it was removed or cut, or found no room"


def _segment(name: str) -> str:
    """``name`` as the name of one folder: an agent's may be a path."""
    return re.sub(r"[^\w.\[\]-]+", "_", name)


def _copy(folder: Path, target: Path) -> None:
    """Copy the files that the runner wrote, over those of an earlier session; never what the agent wrote."""
    target.mkdir(parents=True, exist_ok=True)
    for name in _KEPT:
        if (folder / name).is_dir():
            shutil.rmtree(target / name, ignore_errors=True)
            shutil.copytree(folder / name, target / name)
        elif (folder / name).exists():
            shutil.copyfile(folder / name, target / name)


def _patient(scenario: Scenario, factor: int) -> Scenario:
    """The scenario with ``factor`` times as much time for what the agent must keep to, and waits for."""
    scaled: dict[str, Any] = {name: value * factor for name, value in scenario.limits.times().items()}
    script, lanes = scenario.script, scenario.lanes
    return replace(
        scenario,
        limits=replace(scenario.limits, **scaled),
        seconds=scenario.seconds * factor,
        watch=scenario.watch * factor,
        script=script and (lambda setup: [_slowed(reply, factor) for reply in script(setup)]),
        lanes=lanes and (lambda setup: [_slowed_lane(lane, factor) for lane in lanes(setup)]),
        tools=tuple(_slowed_tool(tool, factor) for tool in scenario.tools),
    )


def _slowed_lane(lane: Lane, factor: int) -> Lane:
    return replace(lane, replies=[_slowed(reply, factor) for reply in lane.replies])


def _slowed_tool(tool: ToolSpec, factor: int) -> ToolSpec:
    """The tool, which takes ``factor`` times as long where it takes any time."""
    behaviour = tool.behaviour
    return replace(tool, behaviour=replace(behaviour, limit=behaviour.limit * factor))


def _slowed(reply: Reply, factor: int) -> Reply:
    """The reply with pauses and holds that are ``factor`` times as long."""
    return replace(reply, moves=tuple((where, _slowed_move(move, factor)) for where, move in reply.moves))


def _slowed_move(move: Move, factor: int) -> Move:
    match move:
        case Pause():
            return replace(move, seconds=move.seconds * factor)
        case Hold():
            return replace(move, limit=move.limit * factor)
    return move


def _merged(parts: Sequence[Execution]) -> Execution:
    events = sorted((event for part in parts for event in part.ledger), key=lambda event: event.t)
    return Execution(
        ledger=Ledger(events),
        problem=next((part.problem for part in parts if part.problem), ""),
        files=tuple(folder for part in parts for folder in part.files),
    )
