"""However a session ends, it ends soon and leaves no process behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from plugin.battery_kit import Alive

ALL = ("--agentguard-dialect", "openai-chat", "--tb=no")


def test_interrupt_ends_the_session_and_every_agent(tmp_path: Path) -> None:
    session = Alive(tmp_path, *ALL)
    session.wait_for_runs(2)
    status, text = session.end(signal.SIGINT)
    assert status == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in text
    session.wait_until_gone()


def test_killed_session_takes_every_agent_with_it(tmp_path: Path) -> None:
    session = Alive(tmp_path, *ALL)
    session.wait_for_runs(2)
    status, _ = session.end(signal.SIGKILL)
    assert status == -signal.SIGKILL
    session.wait_until_gone()


def test_interrupt_reaches_the_agents_of_xdist_workers(tmp_path: Path) -> None:
    session = Alive(tmp_path, *ALL, "-n", "1")
    session.wait_for_runs(2)
    status, _ = session.end(signal.SIGINT)
    assert status == pytest.ExitCode.INTERRUPTED
    session.wait_until_gone()
