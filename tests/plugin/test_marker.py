"""``@pytest.mark.agentguard``: verdicts in the call phase, and wrong markers before the first test."""

from __future__ import annotations

import pytest
from plugin.conftest import Suite

CUT = "def test_it(agentguard): cut(agentguard)"
VIOLATED = "def test_it(agentguard): cut(agentguard); run_tool(agentguard)"


def facts(*lines: str) -> str:
    return "\n".join(("import pytest", "from facts import *", *lines))


# -- outcomes -----------------------------------------------------------------------------------------


def test_held_rule_passes(suite: Suite) -> None:
    suite(facts("@rule", CUT)).assert_outcomes(passed=1)


def test_violated_rule_fails_the_test_with_evidence_and_rerun_line(suite: Suite) -> None:
    result = suite(facts("@rule", VIOLATED))
    result.assert_outcomes(failed=1)  # a failed call, neither an error in teardown nor one beside a pass
    result.stdout.fnmatch_lines(
        [
            "no-tool-on-incomplete-stream violated",
            "*#3  endpoint    StreamEnded   stream=s1 complete=False*",
            "*#4  tool-spy    ToolStarted *",
            "  rerun: pytest test_suite.py::test_it",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "verdicts.py" not in result.stdout.str()


def test_rule_asked_for_by_name_fails_when_it_was_not_exercised(suite: Suite) -> None:
    result = suite(facts("@rule", "def test_it(agentguard): pass"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no-tool-on-incomplete-stream not exercised", "  seen: nothing"])


def test_marker_without_any_fixture_is_judged_as_well(suite: Suite) -> None:
    result = suite(facts("@rule", "def test_it(): pass"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no-tool-on-incomplete-stream not exercised"])


def test_rule_may_stay_unexercised_where_the_marker_allows_it(suite: Suite) -> None:
    marker = '@pytest.mark.agentguard("no-tool-on-incomplete-stream", allow_not_exercised=True)'
    suite(facts(marker, "def test_it(agentguard): pass")).assert_outcomes(passed=1)


def test_allowance_does_not_excuse_a_violation(suite: Suite) -> None:
    marker = '@pytest.mark.agentguard("no-tool-on-incomplete-stream", allow_not_exercised=True)'
    suite(facts(marker, VIOLATED)).assert_outcomes(failed=1)


def test_fault_that_never_fired_makes_the_verdict_invalid(suite: Suite) -> None:
    body = "def test_it(agentguard): cut(agentguard, fired=False, sent=3)"
    result = suite(facts("@rule", body))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["no-tool-on-incomplete-stream invalid", "  fault of stream=s1 not delivered: end=clean*sent=3*"]
    )


def test_fault_that_never_fired_fails_also_without_a_marker(suite: Suite) -> None:
    result = suite(facts("def test_it(agentguard): cut(agentguard, fired=False, sent=3)"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["fault of stream=s1 not delivered: end=clean planned=clean sent=3 planned=412"]
    )


def test_without_a_marker_nothing_is_judged(suite: Suite) -> None:
    suite(facts(VIOLATED)).assert_outcomes(passed=1)


# -- the test's own end -------------------------------------------------------------------------------


def test_own_failure_stays_and_findings_are_added_to_its_report(suite: Suite) -> None:
    result = suite(facts("@rule", VIOLATED + "; assert 1 == 2"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E   assert 1 == 2",
            "*- agentguard -*",
            "no-tool-on-incomplete-stream violated",
            "FAILED *assert 1 == 2",
        ]
    )


def test_own_failure_without_findings_has_no_section(suite: Suite) -> None:
    result = suite(facts("@rule", CUT + "; assert 1 == 2"))
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*- agentguard -*")


def test_own_failure_stays_where_judging_breaks(suite: Suite) -> None:
    body = "def test_it(agentguard): agentguard.ledger.record(StreamEnded, nonsense=1); assert 1 == 2"
    result = suite(facts("@rule", body))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   assert 1 == 2", "not judged: TypeError: *nonsense*"])


def test_judging_that_breaks_fails_the_test(suite: Suite) -> None:
    body = "def test_it(agentguard): agentguard.ledger.record(StreamEnded, nonsense=1)"
    result = suite(facts("@rule", body))
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("INTERNALERROR*")


def test_skipped_test_is_not_judged(suite: Suite) -> None:
    skips = "def test_it(agentguard): pytest.skip('no reason')"
    never = "@pytest.mark.skip\ndef test_other(agentguard): pass"
    suite(facts("@rule", skips, "@rule", never)).assert_outcomes(skipped=2)


def test_violation_is_what_xfail_expects(suite: Suite) -> None:
    expects = "@pytest.mark.xfail(strict=True, raises=AssertionError)"
    suite(facts(expects, "@rule", VIOLATED)).assert_outcomes(xfailed=1)


def test_strict_xfail_fails_when_the_rule_held(suite: Suite) -> None:
    result = suite(facts("@pytest.mark.xfail(strict=True)", "@rule", CUT))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*XPASS(strict)*"])


def test_interrupted_test_ends_the_session_as_ever(suite: Suite) -> None:
    result = suite(facts("@rule", "def test_it(agentguard): raise KeyboardInterrupt"), subprocess=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED


# -- where markers stand ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("pytestmark = rule", VIOLATED),
        ("@rule", "class TestIt:", "    " + VIOLATED.replace("(agentguard)", "(self, agentguard)", 1)),
        (
            "@pytest.mark.parametrize('n', [pytest.param(1, marks=rule)])",
            VIOLATED.replace("(agent", "(n, agent", 1),
        ),
    ],
    ids=["module", "class", "parameter"],
)
def test_marker_counts_wherever_it_stands(suite: Suite, lines: tuple[str, ...]) -> None:
    suite(facts(*lines)).assert_outcomes(failed=1)


def test_rules_of_all_markers_add_up_and_the_closest_one_decides(suite: Suite) -> None:
    result = suite(
        facts(
            'pytestmark = pytest.mark.agentguard("no-tool-on-incomplete-stream", attempts=1, rounds=7)',
            '@pytest.mark.agentguard("no-tool-on-incomplete-stream", allow_not_exercised=True, attempts=3)',
            "def test_it(agentguard):",
            "    assert agentguard.ledger.run.limits == {'attempts': 3, 'rounds': 7}",
        )
    )
    result.assert_outcomes(passed=1)


def test_marker_added_by_a_conftest_counts(suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        from facts import rule

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(rule)
        """
    )
    suite(facts(VIOLATED)).assert_outcomes(failed=1)


# -- kinds of test ------------------------------------------------------------------------------------

WITHOUT_ASYNCIO = ["-p", "no:asyncio", "-o", "addopts=-p no:randomly -p no:hypothesispytest", "-W", "ignore"]
ASYNC = "    await {0}.sleep(0); cut(agentguard); await {0}.sleep(0); run_tool(agentguard)"


def test_asyncio_test_is_judged_after_its_body(suite: Suite) -> None:
    body = ("import asyncio", "@rule", "async def test_it(agentguard):", ASYNC.format("asyncio"))
    result = suite(facts(*body))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no-tool-on-incomplete-stream violated"])


def test_anyio_test_is_judged_after_its_body_on_both_back_ends(suite: Suite) -> None:
    body = (
        "import anyio",
        "@rule",
        "@pytest.mark.anyio",
        "@pytest.mark.parametrize('anyio_backend', ['asyncio', 'trio'])",
        "async def test_it(agentguard, anyio_backend):",
        ASYNC.format("anyio"),
    )
    for options in ([], WITHOUT_ASYNCIO):
        result = suite(facts(*body), *options)
        result.assert_outcomes(failed=2)
        result.stdout.fnmatch_lines(["no-tool-on-incomplete-stream violated"])


UNITTEST = (
    "import unittest",
    "@rule",
    "class TestIt(unittest.TestCase):",
    "    @pytest.fixture(autouse=True)",
    "    def _keep(self, agentguard): self.guard = agentguard",
    "    def test_it(self): cut(self.guard); run_tool(self.guard); {}",
)


def test_unittest_case_is_judged(suite: Suite) -> None:
    result = suite(facts(*UNITTEST).format(""))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no-tool-on-incomplete-stream violated"])


def test_own_failure_of_a_unittest_case_stays(suite: Suite) -> None:
    result = suite(facts(*UNITTEST).format("self.fail('mine')"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   AssertionError: mine", "no-tool-on-incomplete-stream violated"])


def test_fixture_asked_for_in_the_first_body_is_judged_in_that_call(suite: Suite) -> None:
    body = ("def test_it(request):", "    cut(request.getfixturevalue('agentguard'), fired=False)")
    result = suite(facts(*body))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fault of stream=s1 not delivered: *"])


def test_fixture_asked_for_in_a_body_that_fails_keeps_its_failure(suite: Suite) -> None:
    body = (
        "def test_it(request):",
        "    cut(request.getfixturevalue('agentguard'), fired=False)",
        "    assert 1 == 2",
    )
    result = suite(facts(*body))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   *assert 1 == 2", "fault of stream=s1 not delivered: *"])


# -- wrong markers ------------------------------------------------------------------------------------

RULE = '"no-tool-on-incomplete-stream"'
MISTAKES = {
    '@pytest.mark.agentguard("no-tool-on-incomplete-strem")': (
        "unknown rule 'no-tool-on-incomplete-strem'; did you mean 'no-tool-on-incomplete-stream'?"
    ),
    "@pytest.mark.agentguard": "names no rule",
    "@pytest.mark.agentguard()": "names no rule",
    "@pytest.mark.agentguard(attempts=3)": "names no rule",
    "@pytest.mark.agentguard(7)": "takes the ids of rules as strings, not 7",
    f"@pytest.mark.agentguard({RULE}, atempts=3)": "unknown option 'atempts'; did you mean 'attempts'?",
    f"@pytest.mark.agentguard({RULE}, attempts=0)": "attempts takes a whole number from 1, not 0",
    f"@pytest.mark.agentguard({RULE}, attempts=True)": "attempts takes a whole number from 1, not True",
    f"@pytest.mark.agentguard({RULE}, deadline='1')": "deadline takes a number of seconds above 0, not '1'",
    f"@pytest.mark.agentguard({RULE}, allow_not_exercised=1)": (
        "allow_not_exercised takes True or False, not 1"
    ),
}


@pytest.mark.parametrize("marker", MISTAKES)
def test_wrong_marker_is_a_usage_error_before_the_first_test(suite: Suite, marker: str) -> None:
    result = suite(facts("def test_first(): pass", marker, "def test_it(): pass"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = f"ERROR: test_suite.py::test_it: @pytest.mark.agentguard: {MISTAKES[marker]}"
    assert message in result.stderr.str()
    result.assert_outcomes()  # nothing ran


@pytest.mark.parametrize("options", [("--collect-only",), ("-n", "2")], ids=" ".join)
def test_wrong_marker_is_a_usage_error_whoever_collects(suite: Suite, options: tuple[str, ...]) -> None:
    marker = '@pytest.mark.agentguard("no-tool-on-incomplete-strem")'
    result = suite(facts("def test_first(): pass", marker, "def test_it(): pass"), *options, subprocess=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *did you mean 'no-tool-on-incomplete-stream'?"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    result.stdout.no_fnmatch_line("*passed*")


# -- together with other plugins ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("-n", "2"),
        ("-p", "no:terminal"),
        ("-p", "no:cacheprovider", "-p", "no:capture", "-p", "no:logging"),
        ("-o", "addopts=--strict-markers"),
        ("--timeout", "30"),
        ("--assert=plain",),
        ("--disable-socket", "--allow-hosts=127.0.0.1"),
    ],
    ids=" ".join,
)
def test_verdicts_are_the_same_under(
    suite: Suite, pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    xml = pytester.path / "report.xml"
    source = facts("@rule", CUT, "@rule", VIOLATED.replace("test_it", "test_other"))
    result = suite(source, *options, f"--junitxml={xml}", subprocess=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    report = xml.read_text()
    assert 'errors="0" failures="1"' in report
    assert 'tests="2"' in report
    assert "no-tool-on-incomplete-stream violated" in report
