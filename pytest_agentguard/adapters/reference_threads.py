"""The reference agent, synchronous, in plain threads."""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_agentguard import Adapter, FetchJob, Job


@cache
def _runs() -> Any:
    from pytest_agentguard.reference.runs import ThreadRuns

    return ThreadRuns()


def _run(job: Job) -> str:
    from pytest_agentguard.reference.threads import ThreadAgent

    agent = ThreadAgent(job)
    with _runs().run_of(job, agent):
        return agent.run()


def _cancel(job: Job | FetchJob) -> None:
    _runs().cancel(job)


def _kept(job: Job) -> str | None:
    text: str | None = _runs().kept(job)
    return text


def _fetch(job: FetchJob) -> Any:
    from pytest_agentguard.reference.fetch_threads import ThreadFetchTool

    tool = ThreadFetchTool(job)
    _runs().begin(job, tool)
    return tool


def _prepare() -> None:
    from pytest_agentguard.reference.fetch_threads import ThreadFetchTool
    from pytest_agentguard.reference.rehearsal import rehearse, rehearse_fetch

    rehearse(_run)
    rehearse_fetch(lambda job: ThreadFetchTool(job)("known"))


ADAPTER = Adapter(
    name="reference-threads",
    run=_run,
    cancel=_cancel,
    kept=_kept,
    fetch=_fetch,
    prepare=_prepare,
    surfaces=("chat", "fetch"),
)
