"""The adapters of the official packages against the endpoint: they do what the documentation shows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from pytest_agentguard import RECORD, Adapter, Job, Ledger, Limits, Reply, RunEnd, catalogue
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.tool_spy import SpiedTool, build_tool
from pytest_agentguard.events import ClientClosed, StreamReleased, ToolStarted, TranscriptRejected

AGENTS = {"openai": "openai-chat", "anthropic": "anthropic"}
MODES = ("stream", "block")

CALL = Reply().text("Let me record that.").call("record", x="{nonce}-evidence")
ANSWER = Reply().text("The answer is ", "final.")

every_agent = pytest.mark.parametrize("name", AGENTS)
every_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(clock=count(1).__next__)


@pytest.fixture
def endpoint(ledger: Ledger) -> Iterator[Endpoint]:
    engine = Engine()
    try:
        with Endpoint(ledger, catalogue.dialects(), engine=engine) as found:
            yield found
    finally:
        engine.stop()


@pytest.fixture
def record(ledger: Ledger) -> SpiedTool:
    return build_tool(RECORD, ledger)


@pytest.fixture
def job_for(endpoint: Endpoint, record: SpiedTool) -> Callable[..., Job]:
    def make(name: str, mode: str, *, lane: str = "", limits: Limits = Limits()) -> Job:  # noqa: B008
        place = endpoint.model_endpoint(AGENTS[name], lane)
        return Job(prompt="Record it.", endpoint=place, mode=mode, tools=(record,), limits=limits)

    return make


def agent(name: str) -> Adapter:
    return catalogue.adapter(name)


@every_agent
@every_mode
def test_tool_runs_once_and_the_answer_comes_back(
    name: str, mode: str, endpoint: Endpoint, ledger: Ledger, job_for: Callable[..., Job]
) -> None:
    endpoint.play(CALL, ANSWER)
    assert agent(name).run(job_for(name, mode)) == "The answer is final."
    (start,) = ledger.of(ToolStarted)
    assert (start.stream, start.call) == ("s1", "s1.c1")
    assert endpoint.requests.count == 2
    assert {request.mode for request in endpoint.requests} == {mode}
    assert endpoint.problems() == []


@every_agent
@every_mode
def test_parallel_calls_and_several_rounds_make_a_valid_transcript(
    name: str, mode: str, endpoint: Endpoint, ledger: Ledger, job_for: Callable[..., Job]
) -> None:
    endpoint.play(CALL.call("record", x="{nonce}-second"), CALL, ANSWER)
    assert agent(name).run(job_for(name, mode)) == "The answer is final."
    assert [start.call for start in ledger.of(ToolStarted)] == ["s1.c1", "s1.c2", "s2.c1"]
    assert ledger.of(TranscriptRejected) == ()


@every_agent
@every_mode
def test_idle_timeout_of_the_job_ends_a_stalled_attempt(
    name: str, mode: str, endpoint: Endpoint, ledger: Ledger, job_for: Callable[..., Job]
) -> None:
    endpoint.play(CALL.stall().times(2))
    with pytest.raises(Exception, match=r"(?i)timed? ?out"):
        agent(name).run(job_for(name, mode, limits=Limits(idle_timeout=0.3, attempts=1)))
    endpoint.settle()
    (closed,) = ledger.of(ClientClosed)
    assert all(closed.seq < released.seq for released in ledger.of(StreamReleased))
    assert endpoint.requests.count == 1


@every_agent
@pytest.mark.parametrize(("attempts", "received"), [(None, 3), (1, 1), (2, 2)])
def test_attempts_of_the_job_are_the_retries_of_the_package(
    name: str, attempts: int | None, received: int, endpoint: Endpoint, job_for: Callable[..., Job]
) -> None:
    endpoint.play(Reply().status(500).header("retry-after-ms", "1").times(5))
    with pytest.raises(Exception, match="500"):
        agent(name).run(job_for(name, "stream", limits=Limits(attempts=attempts)))
    assert endpoint.requests.count == received
    assert agent(name).declared.attempts == 3


@every_agent
def test_rounds_of_the_job_bound_the_loop(name: str, endpoint: Endpoint, job_for: Callable[..., Job]) -> None:
    endpoint.play(CALL.times(5))
    end = agent(name).run(job_for(name, "stream", limits=Limits(rounds=2)))
    assert isinstance(end, RunEnd)
    assert end.how == "limited"
    assert endpoint.requests.count == 2


@every_agent
def test_tool_limit_of_the_job_is_looked_at_before_any_call_of_the_batch(
    name: str, endpoint: Endpoint, record: SpiedTool, job_for: Callable[..., Job]
) -> None:
    endpoint.play(CALL.call("record", x="{nonce}-second"))
    end = agent(name).run(job_for(name, "stream", limits=Limits(tool_calls=1)))
    assert end == RunEnd(how="limited", error="tool calls=2 allowed=1")
    assert record.calls == []


@every_agent
def test_one_client_serves_many_jobs_at_once(
    name: str, endpoint: Endpoint, ledger: Ledger, job_for: Callable[..., Job]
) -> None:
    lanes = [f"lane-{n}" for n in range(8)]
    for lane in lanes:
        endpoint.play(CALL, Reply().text(f"This is {lane}."), lane=lane)
    with ThreadPoolExecutor(len(lanes)) as pool:
        answers = list(pool.map(lambda lane: agent(name).run(job_for(name, "stream", lane=lane)), lanes))
    assert answers == [f"This is {lane}." for lane in lanes]
    assert len(ledger.of(ToolStarted)) == len(lanes)


@every_agent
def test_package_is_imported_when_the_agent_is_prepared_and_not_before(name: str) -> None:
    program = (
        "import sys; from pytest_agentguard import catalogue; "
        f"agent = catalogue.adapter({name!r}); print({name!r} in sys.modules); "
        f"agent.prepare(); print({name!r} in sys.modules)"
    )
    assert _python(program).stdout.split() == ["False", "True"]


@every_agent
def test_missing_package_is_a_usage_error_that_says_what_to_install(name: str) -> None:
    program = (
        f"import sys; sys.modules[{name!r}] = None; from pytest_agentguard import catalogue; "
        f"catalogue.adapter({name!r}).prepare()"
    )
    ended = _python(program)
    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines()[-1] == (
        "pytest_agentguard._core.errors.UsageError: "
        f'agent "{name}" needs: pip install "pytest-agentguard[{name}]"'
    )


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
