"""Row 12: one more run of an agent that is imported already, against its cold start."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from measuring import Row

from pytest_agentguard import RECORD
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard._runner.orders import JobOrder, RunOrder
from pytest_agentguard._witnesses.journal_file import read
from pytest_agentguard.events import RunStarted

_COLD = 3
_RUNS = 7


def rows() -> Iterator[Row]:
    """The openai adapter."""
    frame = {"number": "12", "what": "one more run, up to the first line of it (wall)", "budget": 0.02}
    frame["against"] = "cold start of the openai adapter: process, import, client"
    if find_spec("openai") is None:
        yield Row(**frame, value=None, detail="not installed")
        return
    cold, more = [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(_COLD):
            begun = time.monotonic()
            with AgentHost("openai", root=Path(folder)) as host:
                assert host.hello().error == ""
                cold.append(time.monotonic() - begun)
                more += [_until_started(host, Path(folder) / f"{n}-{k}.jsonl") for k in range(_RUNS)]
    yield Row(
        **frame,
        value=median(more) / median(cold),
        detail=f"{median(more) * 1e3:.1f} ms, cold {median(cold) * 1e3:.0f} ms",
    )


def _until_started(host: AgentHost, journal: Path) -> float:
    """From the order to the fact that the run has started, which is recorded right before its first line."""
    url = "http://127.0.0.1:9"  # nobody listens there, so it ends at once
    job = JobOrder(
        lane="", prompt="go", dialect="openai-chat", base_url=f"{url}/v1", root_url=url, tools=(RECORD,)
    )
    order = RunOrder(id=journal.stem, jobs=(job,), journal=journal, seconds=10.0, watch=0.0)
    begun = time.monotonic()
    host.start(order, lambda lane: None).wait()
    (started,) = read(journal).of(RunStarted)
    return started.t - begun
