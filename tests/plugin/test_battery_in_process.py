"""``agentguard.run_battery``: the battery inside a test, on an agent that only the suite can build."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from plugin import battery_agents, battery_kit
from plugin.conftest import Suite

assert battery_kit.KNOWN  # loaded once, out here; see conftest


@pytest.fixture
def judged(suite: Suite, pytester: pytest.Pytester) -> Suite:
    """A suite with the small agents beside it."""
    shutil.copy(Path(battery_agents.__file__), pytester.path / "agents.py")
    return suite


def test_agent_is_judged_in_sync_asyncio_and_trio_tests(judged: Suite) -> None:
    source = """
        import anyio, pytest
        from agents import careful, careful_async

        CHOSEN = {"scenarios": ["text-only"], "dialects": ["openai-chat"], "modes": ["stream"]}

        @pytest.fixture
        def built():
            return careful

        def test_sync(agentguard, built):
            report = agentguard.run_battery(built, **CHOSEN)
            assert report.totals["held"] == 1
            [check] = report.checks
            assert (check.agent, check.scenario, check.outcome) == ("careful", "text-only", "held")
            assert len(report.results) == 1

        async def test_asyncio(agentguard, built):
            assert agentguard.run_battery(built, **CHOSEN).totals["held"] == 1
            assert agentguard.run_battery(careful_async, **CHOSEN).totals["held"] == 1

        def test_trio(agentguard):
            import trio

            async def main():
                return agentguard.run_battery(careful_async, backend="trio", **CHOSEN)

            assert trio.run(main).totals["held"] == 1

        def test_uncovered(agentguard, built):
            report = agentguard.run_battery(built, scenarios=["text-only"], dialects=["openai-chat"])
            assert report.not_covered == ("block replies (the agent asks for stream)",)
            assert report.totals["held"] == 1
        """
    judged(source).assert_outcomes(passed=4)


def test_violation_fails_the_test_with_its_story(judged: Suite) -> None:
    source = """
        from agents import careless

        def test_it(agentguard):
            agentguard.run_battery(careless, scenarios=["cut-inside-value"], dialects=["openai-chat"], jobs=2)
        """
    result = judged(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: ____ careless · no-tool-on-incomplete-stream · openai-chat, stream · must ____",
            "*offered    record(x=*), cut inside the value of x:*",
            "*done       record(x=*) ran * the end; 2 requests arrived",
            "*why        These are not the arguments of the model,*",
            "*tool-spy  ToolStarted  tool=record arguments=*",
            "*rerun      agentguard.run_battery(careless, scenarios=[[]'cut-inside-value'], *",
        ]
    )
    assert "in_process.py" not in result.stdout.str()


def test_agent_that_does_nothing_fails_and_one_that_cannot_be_asked_too(judged: Suite) -> None:
    source = """
        import pytest
        from agents import careful, quick

        def test_quick(agentguard):
            with pytest.raises(AssertionError, match="requests=0 expected=2; the run returned 'ok'"):
                agentguard.run_battery(quick, scenarios="text-only", modes="stream")

        def test_other_dialect(agentguard):
            with pytest.raises(AssertionError, match="cases=1 judged=0: anthropic .the agent speaks"):
                agentguard.run_battery(careful, scenarios="text-only", dialects="anthropic", modes="stream")
        """
    judged(source).assert_outcomes(passed=2)


def test_strict_scenarios_are_added_by_the_argument(judged: Suite) -> None:
    source = """
        import pytest
        from agents import careful

        ONE = {"scenarios": ["marker-missing"], "dialects": ["openai-chat"], "modes": ["stream"]}

        def test_by_the_argument(agentguard):
            with pytest.raises(AssertionError, match="cases=0 judged=0"):
                agentguard.run_battery(careful, **ONE)
            with pytest.raises(AssertionError, match="modes=.'stream'., strict=True"):
                agentguard.run_battery(careful, strict=True, **ONE)
        """
    judged(source).assert_outcomes(passed=1)


def test_an_adapter_with_a_typo_is_named(judged: Suite) -> None:
    source = """
        import pytest
        from agents import careful
        from pytest_agentguard import Adapter, UsageError

        def test_it(agentguard):
            with pytest.raises(UsageError, match="agent 'mine': unknown mode 'blok'; did you mean 'block'"):
                agentguard.run_battery(Adapter(name="mine", run=careful, modes=("blok",)))
        """
    judged(source).assert_outcomes(passed=1)


def test_rules_that_are_invalid_for_one_reason_share_a_story(judged: Suite) -> None:
    source = """
        import pytest
        from agents import quick

        def test_it(agentguard):
            with pytest.raises(AssertionError) as found:
                agentguard.run_battery(quick, scenarios="control", dialects="openai-chat", modes="stream")
            assert str(found.value).count("____") == 2
            assert "and so     tool-runs-once, nothing-dropped-in-silence, " in str(found.value)
        """
    judged(source).assert_outcomes(passed=1)


def test_wrong_use_is_named(judged: Suite) -> None:
    source = """
        import pytest
        from agents import careful
        from pytest_agentguard import UsageError

        @pytest.mark.parametrize(("wrong", "message"), [
            ({"scenarios": ["text-onli"]}, "unknown scenario 'text-onli'; did you mean 'text-only'?"),
            ({"dialects": ["openai-chatt"]}, "unknown dialect 'openai-chatt'; did you mean 'openai-chat'?"),
            ({"modes": ["streamed"]}, "unknown mode 'streamed'; did you mean 'stream'?"),
            ({"level": "most"}, "level takes must, should or may, not 'most'"),
            ({"backend": "curio"}, "backend takes asyncio or trio, not 'curio'"),
            ({"jobs": 0}, "jobs takes a number from 1, not 0"),
        ])
        def test_it(agentguard, wrong, message):
            with pytest.raises(UsageError) as found:
                agentguard.run_battery(careful, **wrong)
            assert str(found.value) == message

        def test_nothing_to_call(agentguard):
            with pytest.raises(UsageError, match="run takes a function or an Adapter, not 3"):
                agentguard.run_battery(3)
        """
    judged(source).assert_outcomes(passed=7)


def test_blocked_sockets_are_named(judged: Suite) -> None:
    source = """
        from agents import careful

        def test_it(agentguard):
            agentguard.run_battery(careful, scenarios="text-only")
        """
    result = judged(source, "--disable-socket")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*agentguard.run_battery listens on 127.0.0.1 and pytest-socket blocks *"])
