"""A file of an extension folder that is wrong is one line that names it, wherever the catalogue is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_agentguard

PACKAGE = Path(pytest_agentguard.__file__).parent
RULE = PACKAGE / "invariants" / "stream" / "stall_ends.py"
SCENARIO = """
from pytest_agentguard import Reply, Scenario

SCENARIOS = (
    Scenario(id="new", summary="New.", script=lambda setup: [Reply().text("hi")], hint="So.", {fields}),
)
"""
SCENARIOS = "scenarios/chat_new.py"
STREAM = "invariants/stream/new_rule.py"


def rule(old: str = "", new: str = "") -> str:
    """The text of a rule, with something replaced."""
    text = RULE.read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new) if old else text


_BOTH = "invariants/stopping/stall_ends.py and invariants/stream/stall_ends.py"
FLAWS: list[tuple[str, str, str]] = [
    # rules
    (STREAM, "", "invariants/stream/new_rule.py has no INVARIANT"),
    (STREAM, "INVARIANT = 3", "invariants/stream/new_rule.py: INVARIANT is a int, not a Invariant"),
    (STREAM, "def f(:", "invariants/stream/new_rule.py: SyntaxError: invalid syntax (new_rule.py, line 1)"),
    (STREAM, "1 / 0", "invariants/stream/new_rule.py: ZeroDivisionError: division by zero"),
    (STREAM, "import no_such_thing", "new_rule.py: ModuleNotFoundError: No module named 'no_such_thing'"),
    (
        STREAM, rule("level=Level.MUST", 'level="must"'),
        "invariants/stream/new_rule.py: level takes Level.MUST, SHOULD or MAY, not 'must'",
    ),
    (
        STREAM, rule("INVARIANT = Invariant(\n    check,", "INVARIANT = Invariant(\n    3,"),
        "invariants/stream/new_rule.py: check takes a function, not 3",
    ),
    ("invariants/stopping/stall_ends.py", rule(), f"rule 'stall-ends' is defined twice: {_BOTH}"),
    ("invariants/fetching/new.py", rule(), "invariants/fetching/ has no __init__.py, so none of its"),
    ("invariants/new.py", rule(), "invariants/new.py is in no family: rules are in invariants/FAMILY/"),
    # the other folders
    ("faults/new.py", "FAULT = None", "faults/new.py has no FAULT"),
    (
        "faults/new.py",
        "from pytest_agentguard import Fault\nFAULT = Fault(lambda reply: reply, seen='whole')",
        "faults/new.py: seen takes a Seen, not 'whole'",
    ),
    (
        "faults/new.py",
        "from pytest_agentguard import Fault, Seen\nFAULT = Fault(print, seen=Seen.WHOLE, modes='stream')",
        "faults/new.py: modes takes a tuple of stream and block, not 'stream'",
    ),
    ("dialects/new.py", "DIALECT = {}", "dialects/new.py: DIALECT is a dict, not a Dialect"),
    # scenarios
    (SCENARIOS, "SCENARIOS = []", "scenarios/chat_new.py: SCENARIOS is a list, not a tuple"),
    (SCENARIOS, "SCENARIOS = (3,)", "scenarios/chat_new.py: SCENARIOS takes scenarios, not 3"),
    (
        SCENARIOS, SCENARIO.format(fields='invariants=("stall-end",)'),
        "scenarios/chat_new.py: scenario 'new': unknown rule 'stall-end'; did you mean 'stall-ends'?",
    ),
    (
        SCENARIOS, SCENARIO.format(fields='invariants="stall-ends"'),
        "scenarios/chat_new.py: scenario 'new': invariants takes a tuple of names, not 'stall-ends'",
    ),
    (
        SCENARIOS, SCENARIO.format(fields='invariants=("stall-ends",), modes=("steam",)'),
        "scenarios/chat_new.py: scenario 'new': unknown mode 'steam'; did you mean 'stream'?",
    ),
    (
        SCENARIOS, SCENARIO.format(fields='invariants=("stall-ends",), dialects=("antropic",)'),
        "scenarios/chat_new.py: scenario 'new': unknown dialect 'antropic'; did you mean 'anthropic'?",
    ),
    (
        SCENARIOS, SCENARIO.format(fields='invariants=("stall-ends",), surface="chats"'),
        "scenarios/chat_new.py: scenario 'new': unknown surface 'chats'; did you mean 'chat'?",
    ),
    (
        SCENARIOS, SCENARIO.replace('id="new"', 'id="control"').format(fields='invariants=("stall-ends",)'),
        "scenario 'control' is defined twice: scenarios/chat_control.py and scenarios/chat_new.py",
    ),
    (SCENARIOS, SCENARIO.format(fields="invariant=()"), "scenarios/chat_new.py: TypeError: "),
]  # fmt: skip
_READ = """
from pytest_agentguard import catalogue
from pytest_agentguard._core.errors import UsageError

try:
    catalogue.read_all()
except UsageError as problem:
    print(problem)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package."""
    folder = tmp_path_factory.mktemp("copy") / "pytest_agentguard"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def broken(request: pytest.FixtureRequest, package: Path) -> Iterator[Path]:
    """The copy with one file more, for as long as a test lasts."""
    name, text = request.param
    file = package / name
    made = not file.parent.exists()
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    yield package
    shutil.rmtree(file.parent) if made else file.unlink()


def python(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python that finds the copy first."""
    return subprocess.run(
        [sys.executable, "-B", *arguments], capture_output=True, text=True, timeout=60, check=False,
        cwd=package.parent, env={**os.environ, "PYTHONPATH": str(package.parent), "PYTEST_ADDOPTS": ""},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "message"),
    [pytest.param((name, text), message, id=message[:70]) for name, text, message in FLAWS],
    indirect=["broken"],
)
def test_a_broken_file_is_one_line_that_names_it(broken: Path, message: str) -> None:
    done = python(broken, "-c", _READ)

    assert message in done.stdout, done.stderr
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("broken", [(STREAM, "1 / 0")], indirect=True)
@pytest.mark.parametrize("option", [("--agentguard",), ("--agentguard-list",)], ids=str)
def test_the_battery_and_the_list_end_with_that_line(broken: Path, option: tuple[str, ...]) -> None:
    done = python(broken, "-m", "pytest", *option)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == "ERROR: invariants/stream/new_rule.py: ZeroDivisionError: division by zero"


def test_a_whole_package_has_no_flaw(package: Path) -> None:
    assert python(package, "-c", _READ).stdout == ""
