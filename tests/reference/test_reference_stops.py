"""Stops of the reference: what is on record when, what is refused after, and which text is kept."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio
import pytest
import trio
from fetch_kit import hold, site, status
from reference_kit import ANSWER, BOUND, CALL, DIALECTS, stage

from pytest_agentguard import (
    BEFORE_FINISH,
    RECORD,
    Behaviour,
    FetchJob,
    Job,
    Limits,
    Reply,
    ToolSpec,
    catalogue,
)
from pytest_agentguard.events import ToolStarted
from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.supervisor import Supervisor
from pytest_agentguard.reference.threads import ThreadAgent

each_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])
ADAPTERS = ("reference", "reference-trio", "reference-threads")
HELD = Reply().text("Half of ", "the answer.").hold(BEFORE_FINISH, limit=BOUND)
HOLDING = ToolSpec(name="record", parameters=RECORD.parameters, behaviour=Behaviour(does="hold", limit=BOUND))
STUBBORN = ToolSpec(
    name="record", parameters=RECORD.parameters, behaviour=Behaviour(does="swallow-cancel", limit=BOUND)
)


# -- the supervisor -----------------------------------------------------------------------------------


@each_backend
def test_work_returns_what_it_returns_and_raises_what_it_raises(backend):
    async def work(value):
        await anyio.sleep(0)
        if isinstance(value, Exception):
            raise value
        return value

    async def main():
        supervisor = Supervisor(BOUND)
        assert await supervisor.run(work, 7) == 7
        with pytest.raises(LookupError):
            await supervisor.run(work, LookupError())
        assert await supervisor.run(work, 8) == 8

    anyio.run(main, backend=backend)


@each_backend
@pytest.mark.requirement("B08")
def test_the_deadline_cancels_and_the_clean_up_is_awaited(backend):
    order = []

    async def work(supervisor):
        try:
            await anyio.sleep(BOUND)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            order.append(f"cleaned up, stop={supervisor.why}")

    async def main():
        supervisor = Supervisor(0.1)
        with pytest.raises(errors.DeadlineReached, match=r"^the run took too long: deadline=0\.1 s$"):
            await supervisor.run(work, supervisor)
        order.append("over")
        with pytest.raises(errors.RunStopped, match=r"^nothing is started after a stop: stop=deadline$"):
            await supervisor.run(work, supervisor)

    anyio.run(main, backend=backend)
    assert order == ["cleaned up, stop=deadline", "over"]


async def test_a_cancel_is_on_record_before_the_work_hears_of_it():
    seen = []
    supervisor, begun = Supervisor(), asyncio.Event()

    async def work():
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(supervisor.why)
            raise

    task = asyncio.create_task(supervisor.run(work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancel"]


@pytest.mark.requirement("B15")
async def test_work_that_swallows_a_cancel_is_cancelled_all_the_same():
    supervisor, begun = Supervisor(), asyncio.Event()

    async def work():
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"

    task = asyncio.create_task(supervisor.run(work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_second_cancel_waits_for_the_clean_up_of_the_first():
    order = []
    supervisor = Supervisor()
    begun, cleaning, release = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                cleaning.set()
                await release.wait()
            order.append("clean")

    task = asyncio.create_task(supervisor.run(work))
    await begun.wait()
    task.cancel()
    await cleaning.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert order == ["clean"]


def test_a_stop_ends_the_pause_of_a_thread():
    supervisor = Supervisor()
    threading.Timer(0.05, supervisor.stop, ["cancel"]).start()
    with pytest.raises(errors.RunCancelled):
        supervisor.sleep(BOUND)


def test_the_first_reason_of_a_stop_stays():
    supervisor = Supervisor()
    supervisor.stop("deadline")
    supervisor.stop("cancel")
    with pytest.raises(errors.RunStopped, match="stop=deadline"):
        supervisor.permit()


def test_a_deadline_counts_from_the_start():
    supervisor = Supervisor(0.02)
    while time.monotonic() < supervisor.ends:
        supervisor.permit() if supervisor.left() > 0.005 else None
    with pytest.raises(errors.DeadlineReached):
        supervisor.look()
    with pytest.raises(errors.RunStopped):
        supervisor.permit()


# -- agents -------------------------------------------------------------------------------------------


def arrived(ledger, kind):
    """Wait until the ledger has a fact of this kind."""
    ends = time.monotonic() + BOUND
    while not ledger.of(kind):
        assert time.monotonic() < ends
        time.sleep(0.005)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.requirement("A38")
async def test_text_that_came_before_a_cancel_is_kept(dialect):
    with stage(dialect, "stream", [CALL, HELD]) as on:
        agent = Agent(on.job(idle_timeout=BOUND))
        task = asyncio.create_task(agent.run())
        while "answer." not in agent.kept:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert agent.kept == "Let me record that.Half of the answer."
        assert on.asked == 2


@pytest.mark.parametrize("mode", ["stream", "block"])
async def test_text_is_kept_while_a_tool_runs(mode):
    with stage("openai-chat", mode, [CALL]) as on:
        agent = Agent(on.job(HOLDING))
        task = asyncio.create_task(agent.run())
        await asyncio.to_thread(arrived, on.ledger, ToolStarted)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert agent.kept == "Let me record that."


@pytest.mark.requirement("B15")
def test_a_thread_that_waits_for_the_model_is_cancelled():
    with stage("anthropic", "stream", [HELD]) as on:
        agent = ThreadAgent(on.job(idle_timeout=BOUND))

        def cancel():
            while "answer." not in agent.kept:
                time.sleep(0.005)
            agent.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(errors.RunCancelled):
            agent.run()
        canceller.join(BOUND)

        assert agent.kept == "Half of the answer."
        assert on.asked == 1


@pytest.mark.parametrize("spec", [HOLDING, STUBBORN], ids=["blocks", "swallows"])
@pytest.mark.requirement("B15")
def test_a_thread_in_a_tool_is_cancelled_at_its_next_look(spec):
    with stage("openai-chat", "stream", [CALL, ANSWER.optional()]) as on:
        job = on.job(spec)
        agent = ThreadAgent(job)

        def cancel():
            arrived(on.ledger, ToolStarted)
            agent.cancel()
            job.tools[0].release()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(errors.RunCancelled):
            agent.run()
        canceller.join(BOUND)

        assert on.asked == 1


def test_a_thread_that_was_cancelled_before_it_began_asks_nothing():
    with stage("openai-chat", "stream", []) as on:
        agent = ThreadAgent(on.job())
        agent.cancel()
        with pytest.raises(errors.RunCancelled):
            agent.run()

        assert on.asked == 0


# -- adapters -----------------------------------------------------------------------------------------


def as_job(job):
    return Job(
        prompt=job.prompt, endpoint=job.endpoint, mode=job.mode, tools=tuple(job.tools), limits=job.limits
    )


@pytest.mark.parametrize("name", ADAPTERS)
def test_adapters_offer_both_surfaces(name):
    found = catalogue.adapter(name)
    assert found.surfaces == ("chat", "fetch")
    assert (found.cancel is not None) == (name == "reference-threads")


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_fetch_tool_of_an_adapter_fetches(name):
    with site(status(200, b"found")) as place:
        job = FetchJob(allowed={"one": f"{place.url}/one"}, limits=Limits(attempts=1))
        found = catalogue.adapter(name)
        tool = found.fetch(job)
        answer = tool("one") if name == "reference-threads" else anyio.run(tool, "one", backend=found.backend)

    assert answer == "found"


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.requirement("A38")
def test_text_of_a_cancelled_run_is_given_once(name):
    found = catalogue.adapter(name)
    with stage("openai-chat", "stream", [CALL]) as on:
        job = as_job(on.job(HOLDING))
        assert found.kept(job) is None
        CANCELS[name](found, job, on)

        assert found.kept(job) == "Let me record that."
        assert found.kept(job) is None


def cancelled_task(found, job, on):
    async def main():
        task = asyncio.create_task(found.run(job))
        await asyncio.to_thread(arrived, on.ledger, ToolStarted)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def cancelled_scope(found, job, on):
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.run, job)
            await trio.to_thread.run_sync(arrived, on.ledger, ToolStarted)
            nursery.cancel_scope.cancel()

    trio.run(main)


def cancelled_thread(found, job, on):
    def cancel():
        arrived(on.ledger, ToolStarted)
        found.cancel(job)
        job.tools[0].release()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(errors.RunCancelled):
        found.run(job)
    canceller.join(BOUND)


CANCELS = dict(zip(ADAPTERS, (cancelled_task, cancelled_scope, cancelled_thread), strict=True))


def test_a_cancel_that_comes_too_early_stops_its_run_and_no_other():
    found = catalogue.adapter("reference-threads")
    with stage("openai-chat", "stream", [CALL, ANSWER]) as on:
        job = as_job(on.job())
        found.cancel(job)
        with pytest.raises(errors.RunCancelled):
            found.run(job)
        assert on.asked == 0

        assert found.run(as_job(on.job())) == "The answer is final-91c2."


def test_a_cancel_reaches_a_fetch_tool_in_a_thread():
    found = catalogue.adapter("reference-threads")
    with site(hold) as place:
        job = FetchJob(allowed={"one": f"{place.url}/one"})
        tool = found.fetch(job)
        canceller = threading.Thread(
            target=lambda: place.arrived.acquire(timeout=BOUND) and found.cancel(job)
        )
        canceller.start()
        with pytest.raises(errors.RunCancelled):
            tool("one")
        canceller.join(BOUND)
        with pytest.raises(errors.RunCancelled):
            tool("one")

    assert place.paths == ["/one"]
