"""Rows 1 and 3: what a session costs that does not use the plugin, and one that does; as from a wheel."""

from __future__ import annotations

import compileall
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path

from measuring import Cost, Row, child, cpu, interleaved, overhead, python

import pytest_agentguard

PACKAGE = Path(pytest_agentguard.__file__).parent
_PEER = "pytest-asyncio"
_ROUNDS = 9
_BARE = "def test_it(): pass\n"
_USED = "def test_it(sse_endpoint, tool_spy): pass\n"
_REWRITTEN = '''
"""Takes our finder away, so that pytest rewrites every module of ours."""
import sys
import pytest

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "_PlainFinder"]
'''


def rows() -> Iterator[Row]:
    """Unused with and without bytecode, and in use without it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        yield _unused(place / "with", writes=True)
        yield _unused(place / "without", writes=False)
        yield _in_use(place / "used")


def _unused(place: Path, *, writes: bool) -> Row:
    what = f"start-up when unused, {'with' if writes else 'without'} bytecode"
    frame = {"number": "1", "what": what, "against": f"overhead of {_PEER} over bare pytest", "budget": 0.15}
    try:
        site = _installed(place)
    except PackageNotFoundError as problem:
        return Row(**frame, value=None, detail=f"not installed: {problem}")
    (place / "test_it.py").write_text(_BARE)
    start = {
        name: partial(_pytest, place, site, *plugins, writes=writes)
        for name, plugins in {"bare": (), "ours": ("agentguard",), "peer": ("asyncio",)}.items()
    }
    for run in start.values():
        run()  # the first one compiles
    costs = interleaved(start, rounds=_ROUNDS)
    ours, peer = overhead(costs, "ours", "bare"), overhead(costs, "peer", "bare")
    detail = f"bare {cpu(costs['bare']) * 1e3:.0f} ms, ours +{ours * 1e3:.1f} ms, peer +{peer * 1e3:.1f} ms"
    return Row(**frame, value=max(0.0, ours) / peer, detail=detail)


def _in_use(place: Path) -> Row:
    site = _installed(place)
    (place / "test_it.py").write_text(_USED)
    (place / "bare").mkdir()
    (place / "bare" / "test_it.py").write_text(_BARE)
    (site / "rewriting.py").write_text(_REWRITTEN)
    with_bytecode = _installed(place / "compiled")
    start = {
        "bare": partial(_pytest, place / "bare", site, writes=False),
        "compiled": partial(_pytest, place, with_bytecode, "agentguard", writes=True),
        "plain": partial(_pytest, place, site, "agentguard", writes=False),
        "rewritten": partial(_pytest, place, site, "agentguard", writes=False, options=("-p", "rewriting")),
    }
    start["compiled"]()  # the first one compiles
    costs = interleaved(start, rounds=7)
    plain, rewritten = overhead(costs, "plain", "compiled"), overhead(costs, "rewritten", "compiled")
    over_bare = ", ".join(
        f"{name} +{overhead(costs, name, 'bare') * 1e3:.0f} ms" for name in ("compiled", "plain", "rewritten")
    )
    return Row(
        number="3",
        what="engine in use: what a session costs more where pytest cannot keep bytecode",
        against="the same with every module of ours rewritten",
        budget=0.1,
        value=max(0.0, plain) / rewritten,
        detail=f"{plain * 1e3:.0f} ms, rewritten {rewritten * 1e3:.0f} ms; over bare pytest: {over_bare}",
    )


def _installed(place: Path) -> Path:
    """A folder with the plugin and its peer, file by file and compiled, as pip leaves them."""
    site = place / "site"
    about = site / "pytest_agentguard-0.1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copytree(PACKAGE, site / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    files = (path.relative_to(site) for path in sorted((site / PACKAGE.name).rglob("*.py")))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-agentguard\nVersion: 0.1.0\n")
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    (about / "entry_points.txt").write_text("[pytest11]\nagentguard = pytest_agentguard.plugin\n")
    peer = distribution(_PEER)
    for file in peer.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)
    compileall.compile_dir(site, quiet=2)
    return site


def _pytest(folder: Path, site: Path, *plugins: str, writes: bool, options: tuple[str, ...] = ()) -> Cost:
    """One session with only these plugins."""
    others = {plugin.name for plugin in entry_points(group="pytest11")} - set(plugins)
    off = [option for name in ("cacheprovider", *sorted(others)) for option in ("-p", f"no:{name}")]
    env: Mapping[str, str] = {
        "PYTHONPATH": str(site),
        "PYTHONDONTWRITEBYTECODE": "" if writes else "1",
        "PYTEST_ADDOPTS": "",
    }
    command = python("-m", "pytest", "-q", f"--rootdir={folder}", *off, *options, str(folder / "test_it.py"))
    return child(command, cwd=folder, env=env)
