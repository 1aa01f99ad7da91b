"""The cancellation matrix at random moments: nothing is left, and no verdict contradicts the ledger.

``python tests/benchmarks/bench_cancels.py [RUNS] [SEED]`` prints a summary and each contradiction; its exit
status is 1 where there is one.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from measuring import Row

from pytest_agentguard import Cancel, Ledger, Outcome, Verdict, catalogue
from pytest_agentguard._runner.cases import Case, Options, cases_of, uncovered_cancel
from pytest_agentguard._runner.execution import Execution, Stage
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard._runner.judging import judge_case
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard.events import (
    Event,
    FetchEnded,
    HttpReceived,
    LeftBehind,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    StopRequested,
    StreamCompleted,
    ToolStarted,
)

AGENTS = ("reference", "reference-trio", "reference-threads")
RUNS = 1000
SPAN = 0.25  # seconds within which a run is cancelled; most runs that nobody cancels are shorter
CROSSING = 0.1  # seconds that a thread may need from its decision to the call, on a machine under load
AT_ONCE = 8
_BESIDE = ("control", "fetch-control")  # healthy runs, cancelled as well


@dataclass(slots=True)
class Summary:
    """What all runs came to."""

    runs: int = 0
    stopped: int = 0
    left: int = 0
    crossed: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(
        self, name: str, ledger: Ledger, verdicts: Sequence[Verdict], problem: str, *, crosses: bool
    ) -> None:
        """Count one run, and compare what the rules say of it with what its facts say.

        ``crosses``: it is told by a call from another thread, which may cross with the call that the agent
        has just decided on. The facts then say what the rule says, and nobody is to blame.
        """
        self.runs += 1
        self.stopped += bool(ledger.of(StopRequested))
        self.left += len(ledger.of(LeftBehind))
        self.ends.update(end.how for end in ledger.of(RunEnded))
        self.outcomes.update(verdict.outcome for verdict in verdicts)
        if crosses and has_crossed(ledger):
            self.crossed += 1
            verdicts = [one for one in verdicts if one.invariant != "no-call-after-stop"]
        found = [problem] if problem else []
        found += contradictions(ledger, {verdict.invariant: verdict for verdict in verdicts})
        self.problems += [f"{name}: {one}" for one in found]

    def __str__(self) -> str:
        ends, outcomes = (
            ", ".join(f"{k} {n}" for k, n in c.most_common()) for c in (self.ends, self.outcomes)
        )
        return "\n".join(
            [
                f"runs={self.runs} stopped={self.stopped} left_behind={self.left} crossed={self.crossed}",
                f"ends: {ends}",
                f"verdicts: {outcomes}",
                *self.problems,
                f"contradictions={len(self.problems)}",
            ]
        )


# -- what a ledger says without any rule --------------------------------------------------------------


def contradictions(ledger: Ledger, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """Where verdicts and facts do not fit, read here in another way than the rules read them."""
    for id, verdict in verdicts.items():
        if verdict.outcome in (Outcome.VIOLATED, Outcome.INVALID):
            yield f"{id} {verdict.outcome}: {verdict.summary}"
    for left in ledger.of(LeftBehind):
        yield f"left behind kind={left.kind} what={left.what} created={left.created}"
    if ledger.of(LeftBehind) and _outcome(verdicts, "nothing-left-behind") is Outcome.HELD:
        yield "something is left and nothing-left-behind held"
    stops = {stop.lane: stop for stop in reversed(ledger.of(StopRequested))}
    for end in ledger.of(RunEnded):
        yield from _of_end(ledger, stops.get(end.lane), end, verdicts)
    if not stops:
        for id in ("cancel-stays-cancelled", "no-call-after-stop"):
            if _outcome(verdicts, id) is Outcome.HELD:
                yield f"{id} held without a stop"


def _of_end(
    ledger: Ledger, stop: StopRequested | None, end: RunEnded, verdicts: Mapping[str, Verdict]
) -> Iterator[str]:
    if end.how in ("killed", "exited", "signalled"):
        yield f"ended how={end.how}: {end.error}"
    if end.how == "cancelled" and stop is None:
        yield "cancelled without a stop"
    if stop is None:
        return
    late = calls_after(ledger, stop)
    if late and _outcome(verdicts, "no-call-after-stop") is Outcome.HELD:
        yield f"calls after the stop={len(late)} and no-call-after-stop held"
    is_held = _outcome(verdicts, "cancel-stays-cancelled") is Outcome.HELD
    if end.how == "returned" and is_held and not _was_due(ledger, stop):
        yield "returned, although the last word had not been said, and cancel-stays-cancelled held"


def calls_after(ledger: Ledger, stop: StopRequested) -> list[Event]:
    """What the run began after it was told to stop."""
    return [
        event
        for kind in (RequestReceived, HttpReceived, ToolStarted)
        for event in ledger.after(stop, kind)
        if event.lane == stop.lane and getattr(event, "kind", "turn") == "turn"
    ]


def has_crossed(ledger: Ledger) -> bool:
    """Whether one call, and no more, came right after the stop, which the run then obeyed."""
    stop = ledger.first(StopRequested)
    if stop is None or any(end.how != "cancelled" for end in ledger.of(RunEnded, lane=stop.lane)):
        return False
    late = calls_after(ledger, stop)
    return len(late) == 1 and late[0].t - stop.t < CROSSING


def _was_due(ledger: Ledger, stop: StopRequested) -> bool:
    """Whether what the run was for had been done when the stop came: a last answer, or every fetch."""
    whole = {completed.stream for completed in ledger.before(stop, StreamCompleted)}
    if any(reply.stream in whole for reply in ledger.of(ReplyStarted, lane=stop.lane, finish="stop")):
        return True
    return all(end.how != "cancelled" for end in ledger.of(FetchEnded, lane=stop.lane)) and bool(
        ledger.of(FetchEnded, lane=stop.lane)
    )


def _outcome(verdicts: Mapping[str, Verdict], id: str) -> Outcome | None:
    return verdicts[id].outcome if id in verdicts else None


# -- runs ---------------------------------------------------------------------------------------------


@contextmanager
def staged(folder: Path, seed: int) -> Iterator[tuple[Stage, dict[str, AgentHost]]]:
    """A stage, and the three agents."""
    engine = Engine()
    with ExitStack() as stack:
        stack.callback(engine.stop)
        hosts = {name: stack.enter_context(AgentHost(name, root=folder)) for name in AGENTS}
        options = Options(seed=seed, jobs=AT_ONCE)
        active = threading.Semaphore(AT_ONCE)
        yield (
            Stage(
                dialects=catalogue.dialects(), engine=engine, scratch=folder, options=options, active=active
            ),
            hosts,
        )


def matrix(hosts: Mapping[str, AgentHost]) -> list[Case]:
    """Every case that can be cancelled, of every agent."""
    scenarios = [one for one in catalogue.scenarios().values() if one.cancel or one.id in _BESIDE]
    found = []
    for name, host in hosts.items():
        hello = host.hello()
        offered = {"dialects": hello.dialects, "modes": hello.modes, "surfaces": hello.surfaces}
        cases = cases_of(name, scenarios, strict=False, **offered)
        found += [case for case in cases if not uncovered_cancel(case.scenario, hello.cancels)]
    return found


def moments(cases: Sequence[Case], runs: int, seed: int) -> Iterator[Case]:
    """So many of them, each cancelled at a moment of its own; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(runs):
        case = chance.choice(cases)
        cancel = Cancel(after=round(chance.uniform(0.0, SPAN), 4))
        yield replace(case, scenario=replace(case.scenario, cancel=cancel))


def judged(case: Case, execution: Execution) -> tuple[list[Verdict], str]:
    """The verdicts on a run, and what went wrong with it; a reply that a cancel forestalled did not."""
    ids = dict.fromkeys((*case.scenario.invariants, "nothing-left-behind", "no-call-after-stop"))
    rules = [catalogue.invariant(id) for id in ids]
    forestalled = execution.missed and bool(execution.ledger.of(StopRequested))
    problem = "" if forestalled else execution.problem
    return judge_case(case.scenario, rules, execution.ledger), problem


def cancelled_at_random(runs: int = RUNS, seed: int = 0) -> Summary:
    """Carry them out."""
    summary = Summary()
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder), seed) as (stage, hosts):
        cases = list(moments(matrix(hosts), runs, seed))

        def carried_out(case: Case) -> Execution:
            return stage.execute(case, hosts[case.agent])

        with ThreadPoolExecutor(2 * AT_ONCE) as pool:
            for case, execution in zip(cases, pool.map(carried_out, cases), strict=True):
                cancel = case.scenario.cancel
                assert cancel is not None
                name = f"{case.agent} {case.name} after={cancel.after}"
                crosses = case.agent == "reference-threads"
                summary.add(name, execution.ledger, *judged(case, execution), crosses=crosses)
                stage.drop(execution)
    return summary


def rows() -> Iterator[Row]:
    """What must not be there."""
    found = cancelled_at_random()
    detail = f"{found.stopped} of {found.runs} runs were stopped before they had ended"
    for what, value in (("left behind", found.left), ("contradictions", len(found.problems))):
        yield Row(
            number="18",
            what=f"cancels at random moments: {what}",
            against="–",
            budget=0,
            value=value,
            unit="found",
            detail=detail,
        )


def main(arguments: Sequence[str]) -> int:
    """Run the program."""
    summary = cancelled_at_random(*map(int, arguments))
    print(summary)
    return 1 if summary.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
