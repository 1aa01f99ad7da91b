"""Which items a battery has, and how pytest's own options select, order and stop them."""

from __future__ import annotations

import pytest
from plugin.battery_kit import battery, ids, run_battery

ONE = ("--agentguard-dialect", "openai-chat", "-k", "text-only and stream")
TEXT = "agentguard::agents.py:careful::text-only[openai-chat-stream]"
BESIDE = "def test_mine(): pass\ndef test_yours(): pass\n"


def test_ids_name_agent_scenario_dialect_and_mode(pytester: pytest.Pytester) -> None:
    result = battery(pytester, "--co", "-q", agents=("careful", "careless"))
    found = ids(result)
    assert result.ret == 0
    assert found[0] == "agentguard::agents.py:careful::control[anthropic-stream]"
    assert len(found) == len(set(found)) > 600
    for agent in ("careful", "careless"):
        for dialect in ("openai-chat", "anthropic"):
            for mode in ("stream", "block"):
                assert f"agentguard::agents.py:{agent}::text-only[{dialect}-{mode}]" in found
            assert f"agentguard::agents.py:{agent}::agree-on-cut[{dialect}-both]" in found


def test_quiet_collection_prints_nothing_but_ids(pytester: pytest.Pytester) -> None:
    result = battery(pytester, "--co", "-q", *ONE)
    first, last = [line for line in result.outlines if line]
    assert first == TEXT
    assert "1/" in last


def test_collection_starts_no_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        mine="""
        import pathlib
        def run(job):
            pathlib.Path(__file__).with_name("has-run").touch()
        """
    )
    for option in ("--collect-only", "--setup-plan"):
        result = battery(pytester, option, *ONE, "--agentguard-agent", "mine.py:run")
        assert result.ret == 0
        result.stdout.fnmatch_lines(["*text-only*"])
        assert "held 0" not in result.stdout.str()
    assert not (pytester.path / "has-run").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["test_beside.py::test_mine", "test_beside.py::test_yours", TEXT]),
        (("--agentguard-only",), [TEXT]),
        (("test_beside.py::test_mine",), ["test_beside.py::test_mine", TEXT]),
        (("--agentguard-only", "test_beside.py"), [TEXT]),
        (("--deselect", TEXT), ["test_beside.py::test_mine", "test_beside.py::test_yours"]),
        (("--deselect", "test_beside.py"), [TEXT]),
        (("-m", "not agentguard"), ["test_beside.py::test_mine", "test_beside.py::test_yours", TEXT]),
        (("--ignore", "test_beside.py"), [TEXT]),
    ],
)
def test_battery_is_collected_after_the_tests_beside_it(
    pytester: pytest.Pytester, options: tuple[str, ...], expected: list[str]
) -> None:
    pytester.makepyfile(test_beside=BESIDE)
    chosen = ("--agentguard-dialect", "openai-chat", "-k", "mine or yours or text-only and stream")
    result = battery(pytester, "--co", "-q", *chosen, *options)
    assert ids(result) == expected


def test_each_case_runs_once_and_so_does_the_control(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        counted="""
        import pathlib
        from agents import careful

        def run(job):
            with pathlib.Path(__file__).with_name("runs").open("a") as file:
                file.write(".")
            return careful(job)
        """
    )
    words = "(control or text-only or usage or stop-with or plain-id or three) and stream"
    options = ("--agentguard-dialect", "openai-chat", "-k", words, "--agentguard-agent", "counted.py:run")
    for more in ((), ("-n", "1")):
        result = battery(pytester, *options, *more, agents=())
        assert result.parseoutcomes()["passed"] == 6
        runs = pytester.path / "runs"
        assert len(runs.read_text()) == 6
        runs.unlink()


def test_case_is_chosen_by_the_id_in_its_rerun_line(pytester: pytest.Pytester) -> None:
    result = battery(pytester, "--co", "-q", "-k", "text-only[openai-chat-stream]")
    assert ids(result) == [TEXT]


def test_no_case_left_is_an_exit_status_of_its_own(pytester: pytest.Pytester) -> None:
    result = battery(pytester, "-k", "no-such-scenario")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "held" not in result.stdout.str()


def test_agents_come_from_the_ini_file_and_the_command_line_wins(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nagentguard_agents = agents.py:careful\nasyncio_default_fixture_loop_scope = function\n"
    )
    assert ids(battery(pytester, "--co", "-q", *ONE, agents=())) == [TEXT]
    chosen = battery(pytester, "--co", "-q", *ONE, agents=("careless",))
    assert ids(chosen) == [TEXT.replace("careful", "careless")]


def test_agents_come_from_a_hook_as_spec_function_and_adapter(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from pytest_agentguard import Adapter

        def run(job):
            return "ok"

        AGENT = Adapter(name="mine", run=run, modes=("stream",))

        @pytest.hookimpl(optionalhook=True)
        def pytest_agentguard_agents():
            return ["agents.py:careful", run, AGENT, "agents.py:careful"]
        """
    )
    found = ids(battery(pytester, "--co", "-q", *ONE, agents=()))
    own = [TEXT.replace("agents.py:careful", f"conftest.py:{name}") for name in ("run", "AGENT")]
    assert found == [TEXT, *own]


def test_agent_file_is_found_from_where_pytest_was_started(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    below = pytester.mkdir("below")
    (below / "mine.py").write_text("def run(job): return 'ok'\n")
    monkeypatch.chdir(below)
    result = battery(pytester, "--co", "-q", *ONE, "--agentguard-agent", "mine.py:run", agents=())
    assert ids(result) == [TEXT.replace("agents.py:careful", "below/mine.py:run")]


def test_shipped_names_need_no_file(pytester: pytest.Pytester) -> None:
    found = ids(battery(pytester, "--co", "-q", *ONE, agents=()))
    assert found == ["agentguard::reference::text-only[openai-chat-stream]"]


def test_case_passes_whatever_is_switched_off_or_on(pytester: pytest.Pytester) -> None:
    off = [
        option
        for name in ("terminal", "cacheprovider", "asyncio", "anyio")
        for option in ("-p", f"no:{name}")
    ]
    for options in (off, ["-W", "error", "--strict-markers", "--durations=3", "--tb=no", "-v", "-n", "0"]):
        assert battery(pytester, *ONE, *options).ret == 0


def test_verbose_lines_have_the_ids(pytester: pytest.Pytester) -> None:
    result = battery(pytester, *ONE, "-v")
    result.stdout.fnmatch_lines([f"{TEXT.replace('[', '[[]')} PASSED*"])


def test_pytest_randomly_may_shuffle(pytester: pytest.Pytester) -> None:
    chosen = ("--agentguard-dialect", "openai-chat", "-k", "(text-only or control) and stream")
    result = battery(pytester, *chosen, "-p", "randomly")
    assert result.ret == 0
    result.assert_outcomes(passed=2)


def test_timeout_of_somebody_else_leaves_cases_alone(pytester: pytest.Pytester) -> None:
    result = battery(pytester, *ONE, "--timeout=0.01")
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])


@pytest.mark.parametrize("options", [("--disable-socket",), ("--disable-socket", "--allow-hosts=127.0.0.1")])
def test_pytest_socket_stops_other_tests_and_no_case(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        test_beside="""
        import pytest, socket

        def test_mine():
            with pytest.raises(RuntimeError), pytest.warns(UserWarning):
                with socket.socket() as opened:
                    opened.connect(("127.0.0.2", 9))
        """
    )
    chosen = ("--agentguard-dialect", "openai-chat", "-k", "mine or text-only and stream")
    result = battery(pytester, *chosen, *options)
    assert result.parseoutcomes()["passed"] == 2


def test_failed_cases_are_remembered_and_come_first_or_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_beside="def test_mine(): pass\n")
    chosen = ("--agentguard-dialect", "openai-chat", "-k", "mine or (control or cut-inside-value) and stream")
    failed = "agentguard::agents.py:careless::cut-inside-value[openai-chat-stream]"
    first = battery(pytester, *chosen, agents=("careless",))
    assert first.parseoutcomes()["failed"] == 1
    last = battery(pytester, "--co", "-q", "--lf", *chosen, agents=("careless",))
    assert ids(last) == [failed]
    before = battery(pytester, "--co", "-q", "--ff", *chosen, agents=("careless",))
    assert ids(before)[0] == failed
    assert len(ids(before)) == 3


def test_battery_goes_on_among_other_tests_in_any_order(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        def pytest_collection_modifyitems(items):
            items[:] = [*items[1::3], *items[::3], *items[2::3]]
        """
    )
    pytester.makepyfile(
        test_beside="""
        import pytest

        @pytest.mark.parametrize("n", range(6))
        def test_mine(n):
            pass
        """
    )
    words = "mine or (control or text-only or usage or stop-with or plain-id or three) and stream"
    result = battery(pytester, "--agentguard-dialect", "openai-chat", "-k", words)
    assert (result.ret, result.parseoutcomes()["passed"]) == (0, 6 + 6)


def test_first_failure_ends_a_session_that_asks_for_it(pytester: pytest.Pytester) -> None:
    for option in ("-x", "--maxfail=1"):
        session = run_battery(pytester.path, option, "-k", "stream", agents=("broken",))
        assert session.ret == pytest.ExitCode.TESTS_FAILED
        assert session.outcomes["failed"] == 1
        assert "held 0 · violated 0 · known 0 · not exercised 0 · invalid 4\n" in session.text
