"""Wrong options and broken agents: named before anything runs, or without harm to the others."""

from __future__ import annotations

import pytest
from plugin.battery_kit import battery, run_battery

ONE = ("--agentguard-dialect", "openai-chat", "-k", "text-only and stream")
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
BROKEN = """
def helper():
    raise ValueError("broken at import")

helper()
"""


def refused(pytester: pytest.Pytester, *options: str) -> str:
    """The one line of a usage error, and nothing of an internal one."""
    result = battery(pytester, *ONE, *options, agents=())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    assert "passed" not in result.stdout.str()
    return str(result.stderr.str()).strip()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-agent", "referense"), "unknown agent 'referense'; did you mean 'reference'?"),
        (("-agent", ""), "unknown agent ''; known: anthropic, openai, "),
        (("-agent", "agents.py:"), "agent 'agents.py:' is neither module:name nor path/to/file.py:name"),
        (("-agent", ":run"), "agent ':run' is neither module:name nor path/to/file.py:name"),
        (
            ("-agent", "agent.py:run"),
            "agent 'agent.py:run': there is no file 'agent.py' in {root}; did you mean 'agents.py'?",
        ),
        (
            ("-agent", "deep/agents.py:run"),
            "there is no file 'deep/agents.py' in {root}; did you mean 'agents.py'?",
        ),
        (("-agent", "agent:run"), "agent 'agent:run': there is no module 'agent'; did you mean 'agents'?"),
        (("-agent", "no.such.thing:run"), "agent 'no.such.thing:run': there is no module 'no'"),
        (("-agent", "agents.py:careles"), "agents.py has no 'careles'; did you mean 'careless'?"),
        (
            ("-agent", "agents:number"),
            "agent 'agents:number' is neither a function nor an Adapter: it is int",
        ),
        (
            ("-agent", "pathlib:Path"),
            "agent 'pathlib:Path' is neither a function nor an Adapter: it is a class",
        ),
        (("-agent", "agents"), "agent 'agents' lacks the name of its function, as in agents:run"),
        (("-agent", "agents.py"), "agent 'agents.py' lacks the name of its function, as in agents.py:run"),
        (("-agent", "pi.toml"), "agent 'pi.toml': profiles of command-line agents are not supported yet"),
        (("-dialect", "openai-chatt"), "unknown dialect 'openai-chatt'; did you mean 'openai-chat'?"),
        (("-level", "most"), "argument --agentguard-level: invalid choice: 'most'"),
        (("-jobs", "0"), "--agentguard-jobs takes a number from 1, not 0"),
        (("-jobs", "-1"), "--agentguard-jobs takes a number from 1, not -1"),
        (("-jobs", "abc"), "argument --agentguard-jobs: invalid int value: 'abc'"),
        (("-seed", "abc"), "argument --agentguard-seed: invalid int value: 'abc'"),
        (("-json", "."), "--agentguard-json takes a file, and "),
        (("-json", "agents.py/report.json"), "/agents.py is not a folder"),
        (("-artifacts", "agents.py"), "/agents.py is not a folder"),
    ],
    ids=lambda value: "=".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_option_is_a_usage_error(
    pytester: pytest.Pytester, options: tuple[str, str], message: str
) -> None:
    message = message.replace("{root}", str(pytester.path))
    assert message in refused(pytester, f"--agentguard{options[0]}", options[1])


def test_file_in_a_folder_that_was_left_out_is_found_for_the_hint(pytester: pytest.Pytester) -> None:
    (pytester.mkdir("tests") / "guarded.py").write_text("def run(job): ...\n")
    assert "did you mean 'tests/guarded.py'?" in refused(pytester, "--agentguard-agent", "guarded.py:run")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("agentguard_agents = referense", "unknown agent 'referense'; did you mean 'reference'?"),
        ("agentguard_dialects = anthropics", "unknown dialect 'anthropics'; did you mean 'anthropic'?"),
        ("agentguard_level = most", "--agentguard-level takes must, should or may, not 'most'"),
        ("agentguard_jobs = abc", "agentguard_jobs"),
        ("agentguard_seed = abc", "agentguard_seed"),
        ("agentguard_strict = abc", "abc"),
    ],
)
def test_wrong_line_of_the_ini_file_is_a_usage_error(
    pytester: pytest.Pytester, line: str, message: str
) -> None:
    pytester.makeini(INI + line + "\n")
    options = ONE[2:] if "dialects" in line else ONE
    result = battery(pytester, *options, agents=())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("17", "pytest_agentguard_agents: 17 is neither a spec, a function nor an Adapter"),
        (
            "[object]",
            "pytest_agentguard_agents: <class 'object'> is neither a spec, a function nor an Adapter",
        ),
        ("[lambda job: 'ok']", "is not a module-level name; give it as 'module:name' or 'file.py:name'"),
        ("['referense']", "unknown agent 'referense'; did you mean 'reference'?"),
        ("1 / 0", "pytest_agentguard_agents of conftest.py raised ZeroDivisionError: division by zero"),
        ("None", "pytest_agentguard_agents of conftest.py returned None; it returns a list of agents"),
        ("[None]", "pytest_agentguard_agents: None is neither a spec, a function nor an Adapter"),
        (
            "[]",
            "pytest_agentguard_agents of conftest.py gave no agent; to judge the reference, give 'reference'",
        ),
    ],
)
def test_hook_that_returns_nonsense_is_a_usage_error(
    pytester: pytest.Pytester, answer: str, message: str
) -> None:
    pytester.makeconftest(f"def pytest_agentguard_agents():\n    return {answer}\n")
    assert message in refused(pytester)


def test_hook_that_gives_nothing_is_no_matter_where_an_agent_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_agentguard_agents():\n    return None\n")
    result = battery(pytester, *ONE, "--co", "-q", "--agentguard-agent", "reference", agents=())
    result.stdout.fnmatch_lines(["agentguard::reference::text-only*"])


def test_ini_and_hooks_add_up_in_the_order_of_pytest(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"{INI}agentguard_agents = reference\ntestpaths = inner\n")
    pytester.makeconftest("def pytest_agentguard_agents():\n    return ['reference-trio']\n")
    inner = pytester.mkdir("inner") / "conftest.py"
    inner.write_text("def pytest_agentguard_agents():\n    return 'reference-threads'\n")
    result = battery(pytester, *ONE, "--co", "-q", agents=())
    agents = [line.split("::")[1] for line in result.outlines if line.startswith("agentguard::")]
    assert agents == ["reference", "reference-threads", "reference-trio"]


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_missing_package_is_one_line_with_the_command_that_installs_it(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(openai="raise ImportError('not here')")
    session = run_battery(pytester.path, *ONE, *workers, "--agentguard-agent", "openai", agents=())
    assert session.ret == pytest.ExitCode.USAGE_ERROR
    assert 'agent "openai" needs: pip install "pytest-agentguard[openai]"' in session.text
    assert "Traceback" not in session.text


def test_agent_that_breaks_at_import_is_a_collection_error_and_others_are_judged(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(wrong=BROKEN)
    result = battery(pytester, *ONE, "--agentguard-agent", "wrong.py:run", agents=("careful",))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["errors"]) == (1, 1)
    result.stdout.fnmatch_lines(
        [
            "agent 'wrong.py:run' cannot be imported",
            "*wrong.py*in helper*",
            "ValueError: broken at import",
            "*held 1 *",
            "ERROR agentguard::wrong.py:run",
        ]
    )


def test_agent_that_hangs_at_import_is_given_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(hanging="import time\nprint('waits for the moon')\ntime.sleep(600)\n")
    pytester.makeconftest("from pytest_agentguard._core import limits\nlimits.IMPORT_SECONDS = 0.5\n")
    session = run_battery(pytester.path, *ONE, "--agentguard-agent", "hanging.py:run", agents=())
    assert session.ret == pytest.ExitCode.TESTS_FAILED
    assert "ERROR agentguard::hanging.py:run" in session.text
    assert "the import of 'hanging.py:run' took longer than import_seconds=0.5" in session.text


def test_workers_of_xdist_report_wrong_use_and_broken_agents_the_same(pytester: pytest.Pytester) -> None:
    for spec in ("referense", "agents.py:careles"):
        session = run_battery(pytester.path, *ONE, "-n", "1", "--agentguard-agent", spec, agents=())
        assert session.ret == pytest.ExitCode.USAGE_ERROR
        assert "did you mean" in session.text
        assert "INTERNALERROR" not in session.text
    pytester.makepyfile(wrong=BROKEN)
    session = run_battery(pytester.path, *ONE, "-n", "1", "--agentguard-agent", "wrong.py:run")
    assert session.ret == pytest.ExitCode.TESTS_FAILED
    assert "ValueError: broken at import" in session.text
    assert session.outcomes["passed"] == 1


def test_report_in_a_missing_folder_makes_the_folder(pytester: pytest.Pytester) -> None:
    result = battery(pytester, *ONE, "--agentguard-json", "deep/down/report.json")
    assert result.ret == 0
    assert (pytester.path / "deep/down/report.json").is_file()


def test_agent_may_print_garbage(pytester: pytest.Pytester) -> None:
    result = battery(pytester, *ONE, agents=("noisy",))
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])


def test_first_time_user_reads_no_warning_of_pytest_asyncio(pytester: pytest.Pytester) -> None:
    session = run_battery(pytester.path, *ONE, "--co", "-q")
    assert "asyncio_default_fixture_loop_scope" not in session.text


@pytest.mark.parametrize(
    ("ini", "ret", "is_told"),
    [("filterwarnings = error", 0, False), ("asyncio_mode = auto", 0, True)],
    ids=["a suite that says nothing of asyncio", "a suite that says something"],
)
def test_suite_of_somebody_else_goes_on_as_before(
    pytester: pytest.Pytester, ini: str, ret: int, is_told: bool
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    pytester.makepyfile("def test_mine(): pass")
    session = run_battery(pytester.path, agents=(), plain=True)
    assert session.ret == ret
    assert ('"asyncio_default_fixture_loop_scope" is unset' in session.text) is is_told
