"""Options, ini twins, help, marker and fixture listings, and life without the plugin."""

from __future__ import annotations

import pytest
from plugin.conftest import Suite

from pytest_agentguard._plugin.settings import Settings

OPTIONS = {
    "--agentguard-only": "agentguard_only (bool)",
    "--agentguard-agent=SPEC": "agentguard_agents (linelist)",
    "--agentguard-dialect=D": "agentguard_dialects (linelist)",
    "--agentguard-level={must,should,may}": "agentguard_level (string)",
    "--agentguard-strict": "agentguard_strict (bool)",
    "--agentguard-jobs=N": "agentguard_jobs (int)",
    "--agentguard-seed=N": "agentguard_seed (int)",
    "--agentguard-json=FILE": "agentguard_json (string)",
    "--agentguard-artifacts=DIR": "agentguard_artifacts (string)",
    "--agentguard-list": "agentguard_list (bool)",
}
NEEDS_BATTERY = [
    ("--agentguard-only",),
    ("--agentguard-agent", "reference"),
    ("--agentguard-dialect", "anthropic"),
    ("--agentguard-level", "may"),
    ("--agentguard-strict",),
    ("--agentguard-jobs", "2"),
    ("--agentguard-seed", "0"),
    ("--agentguard-json", "report.json"),
    ("--agentguard-artifacts", "kept"),
]


def test_help_names_every_option_and_its_ini_twin(suite: Suite) -> None:
    text = suite("", "--help").stdout.str()
    for option, ini in {"--agentguard ": "agentguard (bool)", **OPTIONS}.items():
        assert f"  {option}" in text
        assert f"  {ini}:" in text


@pytest.mark.parametrize("given", NEEDS_BATTERY, ids=lambda given: given[0])
def test_option_of_the_battery_without_the_battery_is_a_usage_error(
    suite: Suite, given: tuple[str, ...]
) -> None:
    result = suite("def test_it(): pass", *given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: {given[0]} is about the battery, which does not run: add --agentguard"]
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--agentguard-jobs", "many"), "*argument --agentguard-jobs: invalid int value: 'many'"),
        (("--agentguard-level", "most"), "*argument --agentguard-level: invalid choice: 'most'*"),
    ],
)
def test_value_out_of_range_is_a_usage_error(suite: Suite, given: tuple[str, ...], message: str) -> None:
    result = suite("def test_it(): pass", "--agentguard", *given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_ini_of_the_battery_says_nothing_about_other_tests(suite: Suite) -> None:
    ini = ("-o", "agentguard_agents=my.module:run", "-o", "agentguard_jobs=3")
    suite("def test_it(): pass", *ini).assert_outcomes(passed=1)


def test_settings_come_from_the_ini_file_and_options_win(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        agentguard_dialects =
            openai-chat
            anthropic
        agentguard_level = must
        agentguard_strict = true
        agentguard_jobs = 3
        agentguard_seed = 7
        agentguard_json = report.json
        asyncio_default_fixture_loop_scope = function
        """
    )
    twins = Settings.of(pytester.parseconfig())
    assert twins.dialects == ("openai-chat", "anthropic")
    assert (twins.level, twins.strict, twins.jobs, twins.seed) == ("must", True, 3, 7)
    assert twins.json == pytester.path / "report.json"
    given = ("--agentguard-dialect", "anthropic", "--agentguard-level", "may", "--agentguard-seed", "0")
    options = Settings.of(pytester.parseconfig(*given, "--agentguard-jobs", "1"))
    assert options.dialects == ("anthropic",)
    assert (options.level, options.jobs, options.seed) == ("may", 1, 0)


def test_marker_is_listed_with_its_options(suite: Suite) -> None:
    lines = suite("", "--markers").stdout.lines
    assert any(
        line.startswith("@pytest.mark.agentguard(*ids, allow_not_exercised=False, **limits):")
        for line in lines
    )


def test_fixtures_are_listed_with_their_documentation(suite: Suite) -> None:
    result = suite("", "--fixtures")
    result.stdout.fnmatch_lines(
        [
            "agentguard -- *plugin.py:*",
            "    What the witnesses of this test saw: *",
            "sse_endpoint -- *plugin.py:*",
            "tool_spy -- *plugin.py:*",
        ]
    )


def test_hook_of_a_conftest_is_harmless_without_the_plugin(suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(optionalhook=True)
        def pytest_agentguard_agents():
            return ["my.module:run"]
        """
    )
    for options in ((), ("-p", "no:agentguard")):
        suite("def test_it(): pass", *options).assert_outcomes(passed=1)


def test_collect_only_runs_nothing(suite: Suite) -> None:
    marker = '@pytest.mark.agentguard("no-tool-on-incomplete-stream")'
    result = suite(f"import pytest\n{marker}\ndef test_it(agentguard): pass", "--collect-only")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*<Function test_it>*"])
