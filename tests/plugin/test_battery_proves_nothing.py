"""Nothing is green that proves nothing: an agent that can be asked nothing ends or fails the session."""

from __future__ import annotations

import pytest
from plugin.battery_kit import battery, run_battery

OTHER = "def test_mine(): pass\n"
TYPO = "from pytest_agentguard import Adapter\nfrom agents import careful\n"


def adapter(pytester: pytest.Pytester, fields: str) -> tuple[str, str]:
    """The option for an adapter with these fields, beside a test of somebody else that passes."""
    pytester.makepyfile(test_mine=OTHER, mine=f"{TYPO}AGENT = Adapter(name='mine', run=careful, {fields})\n")
    return "--agentguard-agent", "mine.py:AGENT"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("dialects=('antropic',)", "unknown dialect 'antropic'; did you mean 'anthropic'?"),
        ("overlap=0", "overlap takes a whole number from 1, not 0"),
        ("distributions=('htppx',)", "unknown distribution 'htppx'; did you mean "),
    ],
)
def test_adapter_with_a_typo_is_one_line_that_names_it(
    pytester: pytest.Pytester, fields: str, message: str
) -> None:
    result = battery(pytester, *adapter(pytester, fields), agents=())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().strip().startswith(f"ERROR: agent 'mine.py:AGENT': {message}")
    assert result.stderr.str().strip().count("\n") == 0


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_agent_without_a_case_is_a_usage_error_beside_tests_that_pass(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    named = adapter(pytester, "dialects=('openai-chat',)")
    asked = ("--agentguard-dialect", "anthropic", *workers)
    session = run_battery(pytester.path, *named, *asked, agents=())
    assert session.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        "agent 'mine.py:AGENT' has no case: it offers dialects=openai-chat modes=stream,block surfaces=chat; "
        "asked for anthropic" in session.text
    )


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_function_that_never_speaks_the_dialect_asked_for_fails_the_session(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_mine=OTHER)
    asked = ("--agentguard-dialect", "anthropic", "-k", "test_mine or (control and stream)", *workers)
    session = run_battery(pytester.path, *asked)
    assert session.ret == pytest.ExitCode.TESTS_FAILED
    assert (
        "agent agents.py:careful: cases=1 judged=0: anthropic (the agent speaks openai-chat)" in session.text
    )
    assert session.outcomes == {"passed": 1, "skipped": 1} | {
        word: count for word, count in session.outcomes.items() if word not in ("passed", "skipped")
    }


def test_one_dialect_that_is_not_spoken_beside_one_that_is_fails_nothing(pytester: pytest.Pytester) -> None:
    result = battery(pytester, "-k", "text-only and stream")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*judged=0*")
