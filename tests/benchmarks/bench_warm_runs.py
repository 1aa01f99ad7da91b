"""Row 12: one more run of an agent that is imported already, against its cold start."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from measuring import Cost, Row

from pytest_agentguard import RECORD
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard._runner.orders import JobOrder, RunOrder
from pytest_agentguard._witnesses.journal_file import read
from pytest_agentguard.events import RunEnded, RunStarted

HERE = str(Path(__file__).parent)
_COLD = 3
_RUNS = 20
_AGENT = """
import os
import bench_warm_runs as spent
from pytest_agentguard.adapters import openai

openai.prepare()

def run(job):
    family = (os.getpid(), os.getppid(), spent.parent(os.getppid()))
    return str(sum(map(spent.spent, family)))
"""


def rows() -> Iterator[Row]:
    """An agent that imports what the openai adapter imports, and answers at once."""
    frame = {
        "number": "12",
        "what": "one more run, up to its first line: CPU of all processes",
        "budget": 0.02,
    }
    frame["against"] = "cold start: process, import of openai, client"
    if find_spec("openai") is None or not Path("/proc/self/schedstat").exists():
        yield Row(**frame, value=None, detail="needs openai, and Linux with /proc/self/schedstat")
        return
    cold, more, walls = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "agent.py").write_text(f"import sys\nsys.path.insert(0, {HERE!r})\n{_AGENT}")
        for n in range(_COLD):
            with AgentHost("agent.py:run", root=Path(folder)) as host:
                assert host.hello().error == ""
                cold.append(spent(host._process.pid))
                for k in range(_RUNS):
                    taken = _one_more(host, Path(folder) / f"{n}-{k}.jsonl")
                    more.append(taken.cpu)
                    walls.append(taken.wall)
    yield Row(
        **frame,
        value=median(more) / median(cold),
        detail=f"{median(more) * 1e3:.1f} ms, cold {median(cold) * 1e3:.0f} ms; "
        f"wall {median(walls) * 1e3:.1f} ms on this machine",
    )


def spent(pid: int) -> float:
    """CPU of one process so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def parent(pid: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _one_more(host: AgentHost, journal: Path) -> Cost:
    """From the order to the first line of the run: warm parent, supervisor and the run itself."""
    url = "http://127.0.0.1:9"
    job = JobOrder(
        lane="", prompt="go", dialect="openai-chat", base_url=f"{url}/v1", root_url=url, tools=(RECORD,)
    )
    order = RunOrder(id=journal.stem, jobs=(job,), journal=journal, seconds=10.0, watch=0.0)
    before, begun = spent(host._process.pid), time.monotonic()
    host.start(order, lambda lane: None).wait()
    facts = read(journal)
    (started,), (ended,) = facts.of(RunStarted), facts.of(RunEnded)
    assert ended.answer is not None, ended.error
    return Cost(float(ended.answer) - before, started.t - begun)
