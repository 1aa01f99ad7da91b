"""The battery without pytest: control first, each case judged, what could not be run proves nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from plugin.battery_agents import broken, careful, careless, quick

from pytest_agentguard import Adapter, Lane, Limits, Reply, Scenario, Setup, after_event, catalogue
from pytest_agentguard._core.errors import LimitReached
from pytest_agentguard._runner.battery import Battery
from pytest_agentguard._runner.cases import Case, CaseResult, Options
from pytest_agentguard._runner.in_process import InProcessHost
from pytest_agentguard._runner.orders import Hello, RunOrder

BOUND = 20.0
CUT = ("no-tool-on-incomplete-stream",)
CONTROL = catalogue.scenarios()["control"]
TEXT = catalogue.scenarios()["text-only"]


def call() -> Reply:
    return Reply().call("record", x="{nonce}-evidence")


def scenario(id: str, script: Callable[[Setup], Sequence[Reply]], **options: Any) -> Scenario:
    given = {"invariants": CUT, "watch": 0.01, "modes": ("stream",), **options}
    return Scenario(id=id, summary=".", script=script, **given)


def sweep(*labels: str, **options: Any) -> Scenario:
    """A cut inside the arguments in each lane."""

    def lanes(setup: Setup) -> list[Lane]:
        return [Lane(label, cut_call(setup)) for label in labels]

    given = {"invariants": CUT, "watch": 0.01, "modes": ("stream",), **options}
    return Scenario(id="sweep", summary=".", lanes=lanes, **given)


def cut_call(setup: Setup) -> list[Reply]:
    return [call().cut(inside="x"), Reply().text("It is ", setup.final).optional()]


class Refusing:
    """A host on which no run can be started."""

    def hello(self) -> Hello:
        return Hello(name="mine")

    def start(self, order: RunOrder, on_ended: Callable[[str], None]) -> Any:
        raise LimitReached("no process left")

    def close(self) -> None:
        pass


@contextmanager
def battery(tmp_path: Path, agent: Any, *scenarios: Scenario, **options: Any) -> Iterator[Battery]:
    """A battery of a few scenarios for one agent in this process."""
    host = agent if hasattr(agent, "hello") else InProcessHost(agent, name="mine")
    control = options.pop("control", CONTROL)
    made = Battery(
        {"mine": host},
        scenarios={found.id: found for found in (control, *scenarios)},
        dialects=catalogue.dialects(),
        invariants=catalogue.invariants(),
        scratch=tmp_path / "scratch",
        options=Options(**options),
    )
    try:
        yield made
    finally:
        made.close()


def case(given: Scenario, dialect: str = "openai-chat", mode: str = "stream") -> Case:
    return Case("mine", given, dialect, mode)


def outcomes(result: CaseResult) -> dict[str, str]:
    return {check.invariant: check.outcome for check in result.checks}


def test_control_is_a_check_of_its_own_case_and_of_no_other(tmp_path: Path) -> None:
    with battery(tmp_path, careful, TEXT) as made:
        control, text = made.result(case(CONTROL)), made.result(case(TEXT))
    assert outcomes(control) == {
        "control": "held",
        "tool-runs-once": "held",
        "nothing-dropped-in-silence": "held",
        "transcript-is-valid": "held",
    }
    assert outcomes(text) == {"nothing-dropped-in-silence": "held"}
    assert {check.agent for check in (*control.checks, *text.checks)} == {"mine"}


def test_control_runs_once_for_all_cases_that_need_it(tmp_path: Path) -> None:
    runs: list[str] = []

    def agent(job: Any) -> str:
        runs.append(job.mode)
        return careful(job)

    others = [scenario(f"cut-{n}", cut_call) for n in range(3)]
    with battery(tmp_path, agent, *others) as made:
        made.plan([case(other) for other in others])
        for other in others:
            assert outcomes(made.result(case(other))) == {CUT[0]: "held"}
    assert len(runs) == 1 + 3


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (quick, "control failed: requests=0 expected=2; the run returned 'ok'"),
        (broken, "control failed: requests=0 expected=2; the run raised RuntimeError: no model today"),
    ],
)
def test_agent_that_fails_its_control_is_judged_in_nothing(tmp_path: Path, agent: Any, reason: str) -> None:
    with battery(tmp_path, agent, TEXT) as made:
        results = [made.result(case(CONTROL)), made.result(case(TEXT)), made.result(case(TEXT, mode="block"))]
    for result in results:
        assert set(outcomes(result).values()) == {"invalid"}
    assert results[1].checks[0].summary == reason


def test_other_modes_and_dialects_of_a_plain_function_are_uncovered(tmp_path: Path) -> None:
    with battery(tmp_path, careful, TEXT) as made:
        block, other = made.result(case(TEXT, mode="block")), made.result(case(TEXT, "anthropic"))
    assert (block.checks, block.uncovered) == ((), "block replies (the agent asks for stream)")
    assert (other.checks, other.uncovered) == ((), "anthropic (the agent speaks openai-chat)")


def test_case_over_both_modes_needs_the_control_of_each(tmp_path: Path) -> None:
    agree = catalogue.scenarios()["agree-on-healthy"]
    with battery(tmp_path, careful, agree) as made:
        assert made.result(case(agree, mode="both")).uncovered == "block replies (the agent asks for stream)"
    with battery(tmp_path, quick, agree) as made:
        assert outcomes(made.result(case(agree, mode="both"))) == {"stream-and-block-agree": "invalid"}


def test_violation_is_found_with_its_evidence(tmp_path: Path) -> None:
    cut = scenario("cut", cut_call)
    with battery(tmp_path, careless, cut) as made:
        result = made.result(case(cut))
    [check] = result.checks
    assert (check.outcome, check.level, check.mode) == ("violated", "must", "stream")
    assert "ToolStarted" in [event["event"] for event in check.evidence]
    assert result.ledger.end.how == "returned"


def test_sweep_tells_the_first_lane_that_breaks_alone(tmp_path: Path) -> None:
    broken_sweep = sweep("byte-1", "byte-2", "byte-3")
    with battery(tmp_path, careless, broken_sweep) as made:
        result = made.result(case(broken_sweep))
    [check] = result.checks
    assert check.outcome == "violated"
    assert check.summary.startswith("first at byte-1, 3 of 3: tool=record started")
    assert result.label == "byte-1"
    assert list(result.ledger.by_lane()) == ["byte-1"]
    with battery(tmp_path / "again", careful, broken_sweep) as made:
        assert outcomes(made.result(case(broken_sweep))) == {CUT[0]: "held"}


def test_agent_that_bears_no_company_is_judged_lane_by_lane(tmp_path: Path) -> None:
    """It breaks the rule while others run beside it, and keeps it alone: not what the rule is about."""
    company = threading.Barrier(3)
    inside: list[str] = []

    def agent(job: Any) -> str:
        if "/lane/" not in job.endpoint.root_url:
            return careful(job)
        inside.append(job.endpoint.root_url)
        try:
            company.wait(0.3)
        except threading.BrokenBarrierError:
            return careful(job)
        return careless(job)

    together = sweep("byte-1", "byte-2", "byte-3")
    with battery(tmp_path, agent, together) as made:
        assert outcomes(made.result(case(together))) == {CUT[0]: "held"}
    assert len(inside) == 3 + 1 + 3  # side by side, the first alone, one by one


@pytest.mark.parametrize(("careful_alone", "outcome"), [(True, "held"), (False, "violated")])
def test_agent_that_refuses_company_is_judged_lane_by_lane(
    tmp_path: Path, careful_alone: bool, outcome: str
) -> None:
    """It raises where another run is under way, so that most lanes never ask for their reply."""
    company, first = threading.Barrier(3), threading.Event()

    def agent(job: Any) -> str:
        if "/lane/" not in job.endpoint.root_url:
            return careful(job)
        if not first.is_set():
            company.wait(5)
            first.set()
            raise RuntimeError("one job at a time")
        return careful(job) if careful_alone else careless(job)

    together = sweep("byte-1", "byte-2", "byte-3")
    with battery(tmp_path, agent, together) as made:
        assert outcomes(made.result(case(together))) == {CUT[0]: outcome}


def test_healthy_pace_that_kills_is_tried_again_slowly(tmp_path: Path) -> None:
    survives = ("healthy-slow-stream-survives",)
    given: list[float] = []

    def slow(setup: Setup) -> list[Reply]:
        return [Reply().text("It is ", setup.final).pause(0.2, after_event(1)).pause(0.2, after_event(2))]

    def agent(job: Any) -> str:
        if job.limits.idle_timeout is None:
            return careful(job)
        given.append(job.limits.idle_timeout)
        if len(given) == 1:  # as on a machine that was busy with something else
            asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": job.prompt}]}
            with httpx.stream("POST", f"{job.endpoint.base_url}/chat/completions", json=asked):
                raise TimeoutError("nothing came")
        return careful(job)

    paced = scenario("paced", slow, invariants=survives, limits=Limits(idle_timeout=0.35), paced=True)
    with battery(tmp_path, agent, paced) as made:
        assert outcomes(made.result(case(paced))) == {survives[0]: "held"}
    assert given == [0.35, pytest.approx(1.05)]


def test_reply_that_nobody_requests_makes_the_run_invalid(tmp_path: Path) -> None:
    twice = scenario("twice", lambda setup: [Reply().text("It is ", setup.final), Reply().text("more")])
    with battery(tmp_path, careful, twice) as made:
        [check] = made.result(case(twice)).checks
    assert check.outcome == "invalid"
    assert check.summary.startswith("scripted and never requested: ")


def test_run_under_limits_that_proves_nothing_is_tried_again_with_more_time(tmp_path: Path) -> None:
    limits: list[float | None] = []

    def agent(job: Any) -> str:
        if job.limits.deadline is None:
            return careful(job)
        limits.append(job.limits.deadline)
        return careful(job) if len(limits) == 3 else "too late to ask"

    late = scenario("late", cut_call, limits=Limits(deadline=0.5))
    with battery(tmp_path, agent, late) as made:
        assert outcomes(made.result(case(late))) == {CUT[0]: "held"}
    assert limits == [0.5, 1.5, 4.5]


def test_run_under_limits_that_gave_no_occasion_is_tried_again_with_more_time(tmp_path: Path) -> None:
    limits: list[float | None] = []

    def agent(job: Any) -> str:
        if job.limits.idle_timeout is None:
            return careful(job)
        limits.append(job.limits.idle_timeout)
        return careful(job) if len(limits) == 2 else "too late to ask"

    hasty = scenario("hasty", lambda s: [call().cut(inside="x").optional()], limits=Limits(idle_timeout=0.5))
    with battery(tmp_path, agent, hasty) as made:
        assert outcomes(made.result(case(hasty))) == {CUT[0]: "held"}
    assert limits == [0.5, 1.5]


def test_run_without_limits_is_not_tried_again(tmp_path: Path) -> None:
    runs: list[int] = []

    def agent(job: Any) -> str:
        runs.append(1)
        return careful(job) if len(runs) == 1 else "nothing asked"

    cut = scenario("cut", cut_call)
    with battery(tmp_path, agent, cut) as made:
        assert outcomes(made.result(case(cut))) == {CUT[0]: "invalid"}
    assert len(runs) == 2


def test_run_that_cannot_be_started_proves_nothing(tmp_path: Path) -> None:
    with battery(tmp_path, Refusing(), TEXT) as made:
        [check] = made.result(case(TEXT)).checks
    assert check.outcome == "invalid"
    assert check.summary == ("control failed: the run was not carried out: LimitReached: no process left")


@pytest.mark.parametrize("spoil", [Path.unlink, lambda journal: os.truncate(journal, 0)])
def test_run_whose_journal_was_spoilt_proves_nothing(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    runs: list[str] = []

    def agent(job: Any) -> str:
        runs.append(job.prompt)
        if len(runs) > 1:  # not in the control
            spoil(next((tmp_path / "scratch").glob("*/journal.jsonl")))
        return careful(job)

    cut = scenario("cut", cut_call)
    with battery(tmp_path, agent, cut) as made:
        [check] = made.result(case(cut)).checks
    assert check.outcome == "invalid"
    assert check.summary.startswith("the journal of the run is not whole")


def _without(kind: bytes, journal: Path) -> None:
    """Remove every fact of one kind."""
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if kind not in line))


def test_run_whose_journal_lost_only_what_it_had_asked_for_proves_nothing(tmp_path: Path) -> None:
    runs: list[str] = []

    def agent(job: Any) -> str:
        runs.append(job.prompt)
        try:
            return careful(job)
        finally:
            if len(runs) > 1:  # not in the control
                _without(b"RequestReceived", next((tmp_path / "scratch").glob("*/journal.jsonl")))

    cut = scenario("cut", cut_call)
    with battery(tmp_path, agent, cut) as made:
        [check] = made.result(case(cut)).checks
    assert check.outcome == "invalid"
    assert check.summary.startswith("the journal of the run is not whole")


def test_run_that_was_killed_is_not_repeated_with_more_time(tmp_path: Path) -> None:
    runs: list[str] = []
    over = threading.Event()

    def agent(job: Any) -> str:
        runs.append(job.prompt)
        if len(runs) > 1:
            over.wait(BOUND)
        return careful(job)

    timed = scenario("timed", cut_call, limits=Limits(deadline=0.2), seconds=0.3)
    with battery(tmp_path, agent, timed) as made:
        result = made.result(case(timed))
        over.set()
    assert outcomes(result) == {CUT[0]: "invalid"}
    assert len(runs) == 2


def test_agent_that_could_not_be_imported_proves_nothing(tmp_path: Path) -> None:
    class Absent(Refusing):
        def hello(self) -> Hello:
            return Hello(error="Traceback …\nValueError: broken")

    with battery(tmp_path, Absent(), TEXT) as made:
        [check] = made.result(case(TEXT)).checks
    assert check.summary == "control failed: agent could not be imported: ValueError: broken"


def test_planned_cases_run_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(3)

    def agent(job: Any) -> str:
        if job.limits.rounds == 3:  # not the control
            together.wait(BOUND)
        return careful(job)

    cuts = [scenario(f"cut-{n}", cut_call, limits=Limits(rounds=3)) for n in range(3)]
    with battery(tmp_path, agent, *cuts, jobs=4) as made:
        made.plan([case(cut) for cut in cuts])
        assert [outcomes(made.result(case(cut))) for cut in cuts] == [{CUT[0]: "held"}] * 3


@pytest.mark.parametrize(("jobs", "overlap"), [(1, 32), (8, 1)])
def test_runs_overlap_no_more_than_asked_for(tmp_path: Path, jobs: int, overlap: int) -> None:
    lock, at_work, most = threading.Lock(), [0], [0]

    def agent(job: Any) -> str:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        try:
            return careful(job)
        finally:
            with lock:
                at_work[0] -= 1

    adapter = Adapter(name="mine", run=agent, dialects=("openai-chat",), modes=("stream",), overlap=overlap)
    cuts = [scenario(f"cut-{n}", cut_call) for n in range(4)]
    with battery(tmp_path, adapter, *cuts, jobs=jobs) as made:
        made.plan([case(cut) for cut in cuts])
        for cut in cuts:
            made.result(case(cut))
    assert most[0] == 1


def test_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    answers: list[str] = []

    def agent(job: Any) -> str:
        answers.append(careful(job))
        return answers[-1]

    for folder, seed in (("one", 7), ("two", 7), ("three", 8)):
        with battery(tmp_path / folder, agent, TEXT, seed=seed) as made:
            made.result(case(TEXT))
    first, second, third = answers[:2], answers[2:4], answers[4:]
    assert first == second
    assert first != third


def test_artifacts_of_a_bad_case_are_kept_inside_their_folder(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    cut = scenario("cut", cut_call)
    names = "/etc/../../mine.py:run"
    host = InProcessHost(careless, name=names)
    made = Battery(
        {names: host},
        scenarios={"control": CONTROL, "cut": cut},
        dialects=catalogue.dialects(),
        invariants=catalogue.invariants(),
        scratch=tmp_path / "scratch",
        options=Options(artifacts=kept),
    )
    try:
        for given in (cut, CONTROL):
            made.result(Case(names, given, "openai-chat", "stream"))
    finally:
        made.close()
    home = kept / "_etc_.._.._mine.py_run"
    assert [path.name for path in kept.iterdir()] == [home.name]
    assert [path.name for path in home.iterdir()] == ["cut[openai-chat-stream]"]
    files = {path.name for path in (home / "cut[openai-chat-stream]").iterdir()}
    assert files == {"journal.jsonl", "stdout.txt", "stderr.txt", "wire"}


def test_runs_leave_nothing_in_the_scratch_folder(tmp_path: Path) -> None:
    cut, lanes = scenario("cut", cut_call), sweep("byte-1", "byte-2")
    with battery(tmp_path, careless, cut, lanes) as made:
        for given in (cut, lanes):
            assert outcomes(made.result(case(given))) == {CUT[0]: "violated"}
        left = [path.name for path in (tmp_path / "scratch").iterdir()]
    assert len(left) <= 1  # the control's, which others still need
