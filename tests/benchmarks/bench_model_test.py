"""Rows 5 and 6: the first and a later test with a model in it, ours and llmock's, over an empty test."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from measuring import Cost, Row, child, python

_TESTS = 60  # of each kind in the session of row 6
_FIRST = 5  # sessions of each kind for row 5
_BYTECODE = Path(tempfile.gettempdir()) / f"agentguard-benchmark-{os.getpid()}"
_CONFTEST = '''
"""Writes what each test took: its name, CPU, wall."""
import json, sys, time
from pathlib import Path
import pytest
sys.path.insert(0, {here!r})
import peers

TAKEN = []

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    cpu, wall = time.process_time(), time.perf_counter()
    result = yield
    TAKEN.append((item.originalname, time.process_time() - cpu, time.perf_counter() - wall))
    return result

def pytest_sessionfinish():
    Path("taken.json").write_text(json.dumps(TAKEN))
'''
_SUITE = """
import pytest
from peers import ask_once
KINDS = {kinds!r}

def pytest_generate_tests(metafunc):
    metafunc.parametrize("n", range({tests}))

def test_empty(n):
    pass

if "ours" in KINDS:
    def test_ours(n, sse_endpoint):
        from pytest_agentguard import Reply
        sse_endpoint.play(Reply().text("Let me record that.").call("record", x="evidence"))
        said = ask_once(sse_endpoint.base_url("openai-chat"))
        assert said.endswith(b"[DONE]\\n\\n") and b"tool_calls" in said

if "llmock" in KINDS:
    def test_llmock(n, llmock):
        llmock.call_tool("record", {{"x": "evidence"}}, text="Let me record that.")
        said = ask_once(llmock.base_url())
        assert said.endswith(b"[DONE]\\n\\n") and b"tool_calls" in said
"""
_ORDER = """
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.callspec.params["n"])
"""


def rows() -> Iterator[Row]:
    """First use, then CPU and wall time of one more test."""
    if find_spec("llmock") is None:
        for number, budget in (("5", 0.05), ("6", 0.45), ("6", 0.35)):
            what = "a test with sse_endpoint"
            yield Row(
                number=number, what=what, against="llmock", budget=budget, value=None, detail="not installed"
            )
        return
    try:
        yield _first_use()
        yield from _one_more()
    finally:
        shutil.rmtree(_BYTECODE, ignore_errors=True)


def _first_use() -> Row:
    first: dict[str, list[float]] = {"ours": [], "llmock": []}
    for kind in first:
        _session((kind,), tests=1)  # compiles: either has bytecode, as when it was installed
    for _ in range(_FIRST):
        for kind, found in first.items():
            taken = _session((kind,), tests=1)
            empty = taken["test_empty"][0]
            found.append(taken[f"test_{kind}"][0].cpu - empty.cpu)
    ours, peer = median(first["ours"]), median(first["llmock"])
    return Row(
        number="5",
        what="first use of sse_endpoint: CPU of the first test",
        against=f"llmock {version('llmock')}, its first test",
        budget=0.05,
        value=ours / peer,
        detail=f"{ours * 1e3:.0f} ms, llmock {peer * 1e3:.0f} ms",
    )


def _one_more() -> Iterator[Row]:
    taken = _session(("ours", "llmock"), tests=_TESTS)
    for what, budget in (("cpu", 0.45), ("wall", 0.35)):
        ours, peer, empty = (
            median(getattr(cost, what) for cost in taken[f"test_{kind}"][5:])
            for kind in ("ours", "llmock", "empty")
        )
        yield Row(
            number="6",
            what=f"a model-shaped test with sse_endpoint, {what} over an empty test",
            against=f"llmock {version('llmock')}",
            budget=budget,
            value=(ours - empty) / (peer - empty),
            detail=f"{(ours - empty) * 1e3:.2f} ms, llmock {(peer - empty) * 1e3:.2f} ms, "
            f"an empty test {empty * 1e3:.2f} ms",
        )


def _session(kinds: Sequence[str], *, tests: int) -> dict[str, list[Cost]]:
    """What the tests of one session took, by name; kinds alternate."""
    wanted = {"agentguard" if kind == "ours" else kind for kind in kinds}
    off = sorted({plugin.name for plugin in entry_points(group="pytest11")} - wanted)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "conftest.py").write_text(_CONFTEST.format(here=str(Path(__file__).parent)) + _ORDER)
        (place / "test_it.py").write_text(_SUITE.format(kinds=tuple(kinds), tests=tests))
        options = [option for name in off for option in ("-p", f"no:{name}")]
        compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(_BYTECODE)}
        child(python("-m", "pytest", "-q", "-p", "no:cacheprovider", *options), cwd=place, env=compiled)
        taken: dict[str, list[Cost]] = {}
        for name, cpu, wall in json.loads((place / "taken.json").read_text()):
            taken.setdefault(name, []).append(Cost(cpu, wall))
    return taken
