"""What becomes of an order for one job: the job that the agent is handed, and the fact that it was."""

from __future__ import annotations

import os
from typing import Any

from pytest_agentguard._core.contracts import Adapter, Job, Limits, ModelEndpoint
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._runner.orders import JobOrder, RunOrder
from pytest_agentguard._witnesses.journal_file import JournalFile
from pytest_agentguard._witnesses.tool_spy import build_tool


def make_job(run: RunOrder, order: JobOrder, journal: JournalFile) -> Job:
    """The job, with a working directory that exists and tool spies that record into ``journal``."""
    nonces = CountedIds(f"{run.id}/{order.lane}/{os.urandom(4).hex()}")
    workdir = run.workdir(order)
    workdir.mkdir(parents=True, exist_ok=True)
    return Job(
        prompt=order.prompt,
        endpoint=ModelEndpoint(dialect=order.dialect, base_url=order.base_url, root_url=order.root_url),
        mode=order.mode,
        tools=tuple(build_tool(tool, journal, lane=order.lane, nonce=nonces.nonce) for tool in order.tools),
        limits=order.limits,
        workdir=str(workdir),
        session=order.session,
        env=dict(order.env),
    )


def started(run: RunOrder, order: JobOrder, adapter: Adapter) -> dict[str, Any]:
    """The fields of ``RunStarted``; limits are the job's, and the agent's own where the job sets none."""
    kept = Limits(**{**adapter.declared.declared(), **order.limits.declared()})
    return {
        "agent": run.agent or adapter.name,
        "scenario": run.scenario,
        "dialect": order.dialect,
        "mode": order.mode,
        "final": order.final,
        "limits": kept.declared(),
        "tools": {tool.name: dict(tool.parameters) for tool in order.tools},
    }
