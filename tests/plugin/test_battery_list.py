"""``pytest --agentguard-list``: what there is, and nothing is run."""

from __future__ import annotations

import pytest
from plugin.battery_kit import battery

from pytest_agentguard import catalogue
from pytest_agentguard._plugin import listing


def test_everything_there_is_gets_a_line_and_nothing_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_mine(): raise SystemExit('ran')")
    result = battery(pytester, "--agentguard-list", agents=("careful",))
    assert result.ret == 0
    text = result.stdout.str()
    known = (
        *catalogue.scenarios(),
        *catalogue.invariants(),
        *catalogue.faults(),
        *catalogue.dialects(),
        *catalogue.adapter_names(),
    )
    for name in (*known, "agents.py:careful"):
        assert any(name in line.split() for line in text.splitlines()), name
    assert "test session starts" not in text


def test_list_says_which_packages_are_missing() -> None:
    assert listing.missing(("pytest", "no-such-package")) == "  [not installed: no-such-package]"
    assert listing.missing(("pytest",)) == ""


def test_list_needs_no_other_option(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--agentguard-list")
    assert result.ret == 0
    assert "no-tool-on-incomplete-stream" in result.stdout.str()


def test_list_names_a_wrong_agent(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(
        "--agentguard-list", "--agentguard", "--agentguard-agent", "referense"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: unknown agent 'referense'; did you mean 'reference'[?]"])
