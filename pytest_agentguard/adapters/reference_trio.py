"""The reference agent, on trio."""

from __future__ import annotations

from pytest_agentguard import Adapter, Job


async def _run(job: Job) -> str:
    from pytest_agentguard.reference.loop import Agent

    return await Agent(job).run()


def _prepare() -> None:
    import anyio

    from pytest_agentguard.reference.rehearsal import rehearse

    rehearse(lambda job: anyio.run(_run, job, backend="trio"))


ADAPTER = Adapter(name="reference-trio", run=_run, prepare=_prepare, backend="trio")
