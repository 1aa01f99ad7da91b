"""The reference agent, on trio."""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_agentguard import Adapter, FetchJob, Job


@cache
def _runs() -> Any:
    from pytest_agentguard.reference.runs import Runs

    return Runs()


async def _run(job: Job) -> str:
    from pytest_agentguard.reference.loop import Agent

    agent = Agent(job)
    with _runs().run_of(job, agent):
        return await agent.run()


def _kept(job: Job) -> str | None:
    text: str | None = _runs().kept(job)
    return text


def _fetch(job: FetchJob) -> Any:
    from pytest_agentguard.reference.fetch import FetchTool

    return FetchTool(job)


def _prepare() -> None:
    import anyio

    from pytest_agentguard.reference.rehearsal import rehearse, rehearse_fetch

    rehearse(lambda job: anyio.run(_run, job, backend="trio"))
    rehearse_fetch(lambda job: anyio.run(_fetch(job), "known", backend="trio"))


ADAPTER = Adapter(
    name="reference-trio",
    run=_run,
    kept=_kept,
    fetch=_fetch,
    prepare=_prepare,
    backend="trio",
    surfaces=("chat", "fetch"),
)
