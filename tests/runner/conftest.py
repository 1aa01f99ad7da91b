"""Hosts of agents that do their worst."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import HERE, Run, Start, order

from pytest_agentguard._runner.host import AgentHost


@pytest.fixture(scope="module")
def host() -> Iterator[AgentHost]:
    """The synchronous one."""
    with AgentHost("adversaries.py:run", root=HERE) as opened:
        yield opened


@pytest.fixture(scope="module")
def async_host() -> Iterator[AgentHost]:
    """The one on asyncio."""
    with AgentHost("adversaries.py:arun", root=HERE) as opened:
        yield opened


@pytest.fixture
def start(host: AgentHost, tmp_path: Path) -> Start:
    """Starts a run of the synchronous agent."""
    return lambda *prompts, **options: Run(host, order(tmp_path, *prompts, **options))


@pytest.fixture
def astart(async_host: AgentHost, tmp_path: Path) -> Start:
    """Starts a run of the agent on asyncio."""
    return lambda *prompts, **options: Run(async_host, order(tmp_path, *prompts, **options))
