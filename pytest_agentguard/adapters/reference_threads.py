"""The reference agent, synchronous, in plain threads."""

from __future__ import annotations

from pytest_agentguard import Adapter, Job


def _run(job: Job) -> str:
    from pytest_agentguard.reference.threads import ThreadAgent

    return ThreadAgent(job).run()


def _prepare() -> None:
    from pytest_agentguard.reference.rehearsal import rehearse

    rehearse(_run)


ADAPTER = Adapter(name="reference-threads", run=_run, prepare=_prepare)
