"""Runs of ``pytest --agentguard`` against small agents, and what is left of their processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_agentguard import catalogue
from pytest_agentguard._plugin import battery as battery_plugin
from pytest_agentguard._plugin import in_process, listing
from pytest_agentguard.reports import json_report, story, terminal

# Loaded once, out here; see conftest.
LOADED = (battery_plugin, in_process, listing, json_report, story, terminal)
KNOWN = (catalogue.scenarios(), catalogue.invariants(), catalogue.dialects(), catalogue.faults())

_AGENTS = Path(__file__).with_name("battery_agents.py")
_TRACKED = """
import os, time
from pathlib import Path

def note():
    with Path(__file__).with_name("pids").open("a") as file:
        file.write(f"{os.getpid()} ")

note()

def asleep(job):
    note()
    while True:
        time.sleep(60)
"""
BOUND = 120.0  # seconds; far more than anything here takes on an idle machine


def battery(pytester: pytest.Pytester, *options: str, agents: tuple[str, ...] = ("careful",)) -> Any:
    """Run the battery in this process, in the folder of ``pytester``."""
    shutil.copy(_AGENTS, pytester.path / "agents.py")
    return pytester.runpytest_inprocess("-p", "no:randomly", "--agentguard", *_named(agents), *options)


def ids(result: Any) -> list[str]:
    """The ids that a quiet collection has printed."""
    return [line for line in result.outlines if "::" in line]


@dataclass(frozen=True)
class Session:
    """A session of pytest in a process of its own that is over."""

    folder: Path
    ret: int
    text: str

    @property
    def outcomes(self) -> dict[str, int]:
        """How many tests had each outcome, by the last line."""
        return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", self.text.splitlines()[-1])}


def run_battery(
    folder: Path,
    *options: str,
    agents: tuple[str, ...] = ("careful",),
    plain: bool = False,
    bound: float = BOUND,
) -> Session:
    """Run the battery in a process of its own; ``plain`` passes only what is given."""
    shutil.copy(_AGENTS, folder / "agents.py")
    chosen = options if plain else ("-p", "no:randomly", "--agentguard", *_named(agents), *options)
    command = [sys.executable, "-m", "pytest", *chosen]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=bound, check=False, env=_environment()
    )
    return Session(folder, done.returncode, done.stderr + done.stdout)


class Alive:
    """A session of pytest that goes on, whose agents never come back and write down their processes."""

    def __init__(self, folder: Path, *options: str) -> None:
        (folder / "tracked.py").write_text(_TRACKED)
        self._pids = folder / "pids"
        named = ("--agentguard-agent", "tracked.py:asleep")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:randomly", "--agentguard", *named, *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=_environment(),
        )

    @property
    def pids(self) -> set[int]:
        """The processes of the agents so far."""
        return {int(pid) for pid in self._pids.read_text().split()} if self._pids.exists() else set()

    def wait_for_runs(self, count: int) -> None:
        """Wait until so many runs have begun."""
        self._wait(lambda: len(self.pids) > count, "runs that begin")

    def wait_until_gone(self) -> None:
        """Wait until no process of an agent is left."""
        self._wait(lambda: not any(_runs(pid) for pid in self.pids), "agents that end")

    def end(self, number: int = signal.SIGKILL) -> tuple[int, str]:
        """Send a signal; the exit status and what was printed."""
        self.process.send_signal(number)
        text, _ = self.process.communicate(timeout=BOUND)
        return self.process.returncode, text

    def _wait(self, holds: Any, what: str) -> None:
        until = time.monotonic() + BOUND
        while not holds():
            if time.monotonic() > until:
                self.process.kill()
                pytest.fail(f"no {what} within {BOUND} s; pids={self.pids}")
            time.sleep(0.05)


def _named(agents: tuple[str, ...]) -> list[str]:
    return [word for name in agents for word in ("--agentguard-agent", f"agents.py:{name}")]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"}


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
