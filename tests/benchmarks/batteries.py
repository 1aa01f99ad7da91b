"""Runs a battery in a process of its own and says what it took."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measuring import child, python

_TAKEN = '''
"""Writes what the loop over all cases took: wall, CPU of this process, CPU of the agents."""
import json, os, time
from pathlib import Path
import pytest

LOOP = {}

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session):
    LOOP["wall"], LOOP["own"] = time.perf_counter(), time.process_time()
    try:
        return (yield)
    finally:
        LOOP["wall"] = time.perf_counter() - LOOP["wall"]
        LOOP["own"] = time.process_time() - LOOP["own"]

@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    times = os.times()
    LOOP["agents"] = times.children_user + times.children_system
    Path("taken.json").write_text(json.dumps(LOOP))
'''


@dataclass(frozen=True, slots=True)
class Taken:
    """What a battery took, in seconds: wall, CPU of pytest and of the agents, wall of each case."""

    wall: float
    own: float
    agents: float
    seconds: dict[str, float]


def battery(*agents: str, only: str, options: tuple[str, ...] = ()) -> Taken:
    """Run the cases that ``only`` selects; all of them have to pass."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "taking.py").write_text(_TAKEN)
        (place / "pytest.ini").write_text("[pytest]\n")
        ours = ["--agentguard", "--agentguard-only", "--agentguard-json", "report.json"]
        ours += [option for agent in agents for option in ("--agentguard-agent", agent)]
        plain = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "taking"]
        child(
            python("-m", "pytest", *plain, *ours, *options, "-k", only), cwd=place, env={"PYTHONPATH": folder}
        )
        taken = json.loads((place / "taken.json").read_text())
        checks = json.loads((place / "report.json").read_text())["checks"]
    names = ("agent", "scenario", "dialect", "mode")
    seconds = {" ".join(check[name] for name in names): check["seconds"] for check in checks}
    return Taken(**taken, seconds=seconds)
