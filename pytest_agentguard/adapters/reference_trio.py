"""The reference agent, on trio."""

from __future__ import annotations

from pytest_agentguard import Adapter, Job


async def _run(job: Job) -> str:
    from pytest_agentguard.reference.loop import Agent

    return await Agent(job).run()


def _prepare() -> None:
    import pytest_agentguard.reference.loop  # noqa: F401


ADAPTER = Adapter(name="reference-trio", run=_run, prepare=_prepare, backend="trio")
