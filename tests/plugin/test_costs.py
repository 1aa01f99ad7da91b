"""What the plugin costs a suite that does not use it: nothing that can be counted."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from plugin.conftest import Suite

import pytest_agentguard

PACKAGE = Path(pytest_agentguard.__file__).parent
OURS = {"pytest_agentguard", "pytest_agentguard.plugin", "pytest_agentguard.hookspecs"}
OTHERS = sorted({f"no:{plugin.name}" for plugin in entry_points(group="pytest11")} - {"no:agentguard"})


def run_pytest(folder: Path, *options: str, python: tuple[str, ...] = (), **env: str) -> str:
    """Run pytest on ``folder`` in a process of its own, without other plugins; everything that it printed."""
    alone = [option for name in ("no:cacheprovider", *OTHERS) for option in ("-p", name)]
    command = [sys.executable, *python, "-m", "pytest", *alone, *options]
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "", **env}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the package is installed file by file, as from a wheel.

    Of an editable install pytest may rewrite nothing, and then nothing is kept from it.
    """
    site = tmp_path / "site"
    about = site / "pytest_agentguard-0.1.0.dist-info"
    about.mkdir(parents=True)
    (site / "pytest_agentguard").symlink_to(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-agentguard\nVersion: 0.1.0\n")
    (about / "RECORD").write_text("pytest_agentguard/__init__.py,,\npytest_agentguard/plugin.py,,\n")
    (about / "entry_points.txt").write_text("[pytest11]\nagentguard = pytest_agentguard.plugin\n")
    return {"PYTHONPATH": str(site)}


def modules(folder: Path, *options: str) -> set[str]:
    """The modules that are loaded when the session is over and the interpreter exits."""
    (folder / "conftest.py").write_text(
        "import atexit, pathlib, sys\n"
        "atexit.register(lambda: pathlib.Path('seen').write_text('\\n'.join(sys.modules)))\n"
    )
    (folder / "test_it.py").write_text("def test_it(): pass\n")
    run_pytest(folder, *options)
    return set((folder / "seen").read_text().split())


def test_unused_plugin_loads_its_entry_modules_and_nothing_else(tmp_path: Path) -> None:
    bare = modules(tmp_path, "-p", "no:agentguard")
    assert modules(tmp_path) - bare == OURS


def test_unused_plugin_has_no_hook_for_single_tests_and_no_autouse_fixture(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(session):
            manager = session.config.pluginmanager
            found = [
                f"{name} in {impl.plugin_name}"
                for name in dir(manager.hook)
                if name.startswith(("pytest_runtest", "pytest_pyfunc", "pytest_fixture", "pytest_generate"))
                for impl in getattr(manager.hook, name).get_hookimpls()
                if "agentguard" in impl.plugin_name
            ]
            print("hooks", found)
            ours = {"agentguard", "sse_endpoint", "tool_spy"}
            print("fixtures", sorted(ours.intersection(*(item.fixturenames for item in session.items))))
        """
    )
    result = suite("def test_it(): pass", "-s")
    result.stdout.fnmatch_lines(["*hooks []", "fixtures []"])
    used = suite("def test_it(agentguard): pass", "-s")
    used.stdout.fnmatch_lines(
        ["*hooks [[]'pytest_runtest_call in agentguard-verdicts'*", "fixtures *agentguard*"]
    )


def test_hooks_come_with_the_marker_alone(suite: Suite) -> None:
    source = """
        import pytest

        @pytest.mark.agentguard("no-tool-on-incomplete-stream", allow_not_exercised=True)
        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("agentguard-verdicts")
        """
    suite(source).assert_outcomes(passed=1)


def test_engine_is_not_rewritten_even_where_a_conftest_is_first(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    (tmp_path / "conftest.py").write_text("from pytest_agentguard import Reply\n")
    (tmp_path / "test_it.py").write_text(
        """
import sys

def test_it(sse_endpoint, tool_spy):
    ours = {n: m for n, m in sys.modules.items() if n.startswith("pytest_agentguard")}
    plain = {n for n, m in ours.items() if type(m.__loader__).__name__ == "SourceFileLoader"}
    assert set(ours) - plain == {ENTRY}  # these are seen by pytest before our finder is there
    assert len(plain) > 20
""".replace("{ENTRY}", repr(OURS))
    )
    run_pytest(tmp_path, **installed)


def test_compiled_files_of_the_engine_are_used(tmp_path: Path, installed: dict[str, str]) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(agentguard): pass\n")
    cache = {"PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"), **installed}
    run_pytest(tmp_path, PYTHONDONTWRITEBYTECODE="", **cache)
    told = run_pytest(tmp_path, python=("-v",), **cache)
    for module in ("fixtures", "verdicts", "marker", "session"):
        assert f"_plugin/{module}.{sys.implementation.cache_tag}.pyc matches" in told


def test_finder_goes_with_its_session(suite: Suite) -> None:
    before = list(sys.meta_path)
    for options in ((), ("--agentguard-strict",), ("--no-such-option",), ("--version",), ("--help",)):
        suite("def test_it(agentguard): pass", *options)
        assert sys.meta_path == before
