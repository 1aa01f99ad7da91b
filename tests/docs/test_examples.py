"""Every fenced example of the documentation does what the page says."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx  # noqa: F401 - loaded once, as below
import pytest
from fences import Fence, fences, name_of, pages

import pytest_agentguard

# Loaded once, out here: pytest forgets what a run inside this process imports. A second copy costs time, and
# one of our own modules would share no class with the first.
for _module in pkgutil.walk_packages(pytest_agentguard.__path__, "pytest_agentguard."):
    importlib.import_module(_module.name)

_OPTIONS = ("-p", "no:randomly", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "-W", "error")
_INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
_WITH_EXAMPLES = [page for page in pages() if any(fence.kind for fence in fences(page))]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_fence_says_how_it_is_run(page: Path) -> None:
    assert [problem for fence in fences(page) for problem in fence.problems()] == []


@pytest.mark.parametrize("page", _WITH_EXAMPLES, ids=name_of)
def test_the_examples_of_a_page_do_what_it_says(
    page: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    (pytester.path / "pytest.ini").write_text(_INI)
    waiting: dict[str, Fence] = {}
    for fence in fences(page):
        if fence.kind == "file":
            write(pytester.path / fence.options["file"], fence, waiting)
        elif fence.kind == "script":
            run_script(pytester.path, fence)
        elif fence.kind == "run":
            run_console(pytester, fence)
            waiting.clear()
    if waiting:
        run_tests(pytester, waiting)


def write(path: Path, fence: Fence, waiting: dict[str, Fence]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fence.text, encoding="utf-8")
    if path.name == "pyproject.toml":
        (path.parent / "pytest.ini").unlink(missing_ok=True)  # it would win
    if path.name.startswith("test_"):
        waiting[path.name] = fence


def run_script(folder: Path, fence: Fence) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", fence.text],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{fence}\n{done.stderr}"


def run_console(pytester: pytest.Pytester, fence: Fence) -> None:
    for arguments, expected in fence.commands():
        result = pytester.runpytest_inprocess(*_OPTIONS, *arguments)
        assert result.ret == int(fence.options.get("exit", 0)), f"{fence}: exit status"
        assert missing(expected, result.outlines) == "", f"{fence}: not printed"


def run_tests(pytester: pytest.Pytester, waiting: dict[str, Fence]) -> None:
    """Run the test files of a page that no command has run, all at once; something in each of them passes."""
    result = pytester.runpytest_inprocess(*_OPTIONS, "-rA", "--tb=short", *waiting)
    assert result.ret == 0
    for name, fence in waiting.items():
        assert any(line.startswith(f"PASSED {name}") for line in result.outlines), str(fence)


def missing(expected: Sequence[str], printed: Sequence[str]) -> str:
    """The first expected line that is not among the printed ones, in order; ``…`` stands for anything.

    Two witnesses may record their facts in either order: a tool that starts as its stream ends. So the lines
    of a ledger, and what was before or after the end of a stream, are looked for wherever they are.
    """
    every = [" ".join(line.split()) for line in printed]
    lines = iter(every)
    for wanted in expected:
        parts = [re.escape(part) for part in " ".join(wanted.split()).split("…")]
        if parts == ["", ""]:
            continue
        pattern = re.compile(
            _EITHER.sub("ran (?:before|after) the end", _PLACE.sub("#[0-9]+ ", ".*".join(parts)))
        )
        place = every if _PLACE.match(parts[0]) else lines
        if not any(pattern.fullmatch(line) for line in place):
            return wanted
    return ""


_PLACE = re.compile(r"\\#\d+\\ ")  # escaped: a line of a ledger
_EITHER = re.compile(r"ran\\ (?:before|after)\\ the\\ end")


# -- the checks themselves can fail -------------------------------------------------------------------


_UNSAID = "no comment `<!-- example: … -->` above it says how it is run"
_SHOWN = "only what is not Python may be shown"


@pytest.mark.parametrize(
    ("fence", "problem"),
    [
        (Fence("p.md", 3, "python", "x = 1\n"), _UNSAID),
        (Fence("p.md", 3, "console", "$ pytest\n"), _UNSAID),
        (Fence("p.md", 3, "python", "", "sown"), "'sown' is none of file, script, run, shown"),
        (Fence("p.md", 3, "python", "", "shown", reason="it is long"), _SHOWN),
        (Fence("p.md", 3, "yaml", "", "shown"), _SHOWN),
        (Fence("p.md", 3, "console", "$ pip install x\n", "run"), "there is no `$ pytest` in it"),
    ],
)
def test_a_fence_that_nobody_runs_is_a_problem(fence: Fence, problem: str) -> None:
    assert [text.partition(": ")[2].startswith(problem) for text in fence.problems()] == [True]


def test_a_line_that_was_not_printed_is_missed() -> None:
    printed = ["rule  stream", "held 3 · violated 1", "bye"]

    assert missing(["rule stream", "held … · violated 1"], printed) == ""
    assert missing(["…", "bye"], printed) == ""
    assert missing(["held 3"], printed) == "held 3"
    ledger = ["pay ran before the end", "#4 tool-spy ToolStarted", "#5 endpoint StreamEnded sent=4"]
    assert (
        missing(
            ["pay ran after the end", "#4 endpoint StreamEnded sent=…", "#5 tool-spy ToolStarted"], ledger
        )
        == ""
    )
    assert missing(["#4 endpoint StreamHeld"], ledger) == "#4 endpoint StreamHeld"
    assert missing(["bye", "rule stream"], printed) == "rule stream"
