"""The terminal, word for word, at any width, with and without Unicode and colours."""

from __future__ import annotations

import report_documents as given

from pytest_agentguard._core.report import AgentInfo, document
from pytest_agentguard.reports import terminal
from pytest_agentguard.reports.text import columns


def test_header_names_agent_seed_endpoint_and_what_there_is_to_do():
    lines = terminal.header(
        agent="langchain",
        version="1.5.2",
        distributions={"langchain-openai": "1.7.4"},
        seed=8123,
        scenarios=148,
        dialects=3,
        modes=2,
        jobs=32,
        controls=(6, 6),
    )

    assert lines == [
        "agentguard: langchain 1.5.2 (langchain-openai 1.7.4), seed 8123, endpoint on 127.0.0.1",
        "agentguard: 148 scenarios × 3 dialects × 2 modes, 32 at a time; controls 6 of 6",
    ]


def test_header_says_a_version_once_and_counts_nothing_where_nothing_is_selected():
    counts = {"seed": 1, "scenarios": 0, "dialects": 0, "modes": 0, "jobs": 4}

    assert terminal.header(
        agent="openai", version="3.57.0", distributions={"openai": "3.57.0"}, **counts
    ) == [
        "agentguard: openai 3.57.0, seed 1, endpoint on 127.0.0.1",
        "agentguard: no scenario",
    ]
    mine = terminal.header(agent="mine", version="0.28.1", distributions={"httpx": "0.28.1"}, **counts)
    assert mine[0] == "agentguard: mine (httpx 0.28.1), seed 1, endpoint on 127.0.0.1"


def test_header_leaves_out_what_is_not_known_and_wraps_in_plain_text():
    counts = {"scenarios": 1, "dialects": 1, "modes": 1, "jobs": 4}

    assert terminal.header(agent="mine:run", seed=1, **counts, width=40, unicode=False) == [
        "agentguard: mine:run, seed 1, endpoint",
        "  on 127.0.0.1",
        "agentguard: 1 scenario x 1 dialect x 1",
        "  mode, 4 at a time",
    ]


def test_summary_shows_the_matrix_the_totals_and_what_is_not_covered():
    assert terminal.summary(given.battery(), width=100) == [
        "rule                           openai-chat    openai-responses   anthropic",
        "                               stream block   stream block       stream block",
        "error-keeps-its-kind           ✗      -       -      -           -      -",
        "no-tool-on-incomplete-stream   ✗      ✓       ✗      ✓           ✗      ✓",
        "retry-after-respected          ·      ·       -      -           -      -",
        "stall-ends                     ✓      ✓       ✓      ✓           ✓      ✓",
        "tool-runs-once                 -      !       -      -           -      -",
        "transcript-is-valid            k      -       -      -           -      -",
        "✓ held  ✗ violated  ! invalid  k known  · not exercised  - not covered",
        "",
        "not exercised: retry-after-respected",
        "held 9 · violated 4 (must 3, may 1) · known 1 · not exercised 1 · invalid 1",
        "not covered: fetch, process, shell, sessions (the adapter does not offer them)",
    ]


def test_a_narrow_plain_terminal_gets_several_blocks():
    assert terminal.summary(given.battery(), width=70, unicode=False) == [
        "rule                           openai-chat    openai-responses",
        "                               stream block   stream block",
        "error-keeps-its-kind           x      -       -      -",
        "no-tool-on-incomplete-stream   x      +       x      +",
        "retry-after-respected          .      .       -      -",
        "stall-ends                     +      +       +      +",
        "tool-runs-once                 -      !       -      -",
        "transcript-is-valid            k      -       -      -",
        "",
        "rule                           anthropic",
        "                               stream block",
        "error-keeps-its-kind           -      -",
        "no-tool-on-incomplete-stream   x      +",
        "retry-after-respected          -      -",
        "stall-ends                     +      +",
        "tool-runs-once                 -      -",
        "transcript-is-valid            -      -",
        "+ held  x violated  ! invalid  k known  . not exercised  - not covered",
        "",
        "not exercised: retry-after-respected",
        "held 9 - violated 4 (must 3, may 1) - known 1 - not exercised 1",
        "invalid 1",
        "not covered: fetch, process, shell, sessions (the adapter does not",
        "  offer them)",
    ]


def test_nothing_is_wider_than_the_terminal_at_any_width():
    for width in range(24, 130):
        for unicode in (True, False):
            lines = terminal.summary(given.battery(), width=width, unicode=unicode, verbose=True)
            assert max(map(columns, lines)) <= width
            assert unicode or "".join(lines).isascii()


def test_verbose_names_every_check_that_is_neither_held_nor_violated():
    lines = terminal.summary(given.battery(), width=100, verbose=True)

    assert [line for line in lines if "[" in line] == [
        "invalid: tool-runs-once cut-inside-value[openai-chat-block]",
        "known: transcript-is-valid cut-inside-value[openai-chat-stream]",
        "not exercised: retry-after-respected cut-inside-value[openai-chat-both]",
    ]


def test_violations_that_fail_nothing_are_named_with_the_option_that_tells_them():
    below = "violated below --agentguard-level should, so not failed: 1 (error-keeps-its-kind)"

    lines = terminal.summary(given.battery(), width=130, level="should")

    assert [line for line in lines if "below" in line] == [f"{below}; to read them: --agentguard-level may"]
    assert not any("below" in line for line in terminal.summary(given.battery(), width=130, level="may"))


def test_families_separate_the_rules():
    families = {"stall-ends": "stream", "tool-runs-once": "stream", "retry-after-respected": "budget"}
    checks = [given.check(rule, "held") for rule in families]

    assert terminal.summary(document("0", [], checks), width=80, families=families)[2:8] == [
        "budget:",
        "retry-after-respected   ✓      -",
        "stream:",
        "stall-ends              ✓      -",
        "tool-runs-once          ✓      -",
        "✓ held  - not covered",
    ]


def test_several_agents_have_a_matrix_each_and_say_who_lacks_what():
    checks = [given.check("stall-ends", "held", agent=agent) for agent in ("one", "two")]
    checks.append(given.check("tool-runs-once", "not exercised", agent="two"))
    agents = [AgentInfo(name="one"), AgentInfo(name="two", not_covered=("no way to cancel", "fetch"))]

    lines = terminal.summary(document("0", agents, checks), width=80)

    assert lines[0] == "one"
    assert lines[6] == "two"
    assert lines[-3:] == [
        "not exercised by two: tool-runs-once",
        "held 2 · violated 0 · known 0 · not exercised 1 · invalid 0",
        "not covered of two: no way to cancel; fetch",
    ]


def test_an_empty_report_has_only_totals():
    assert terminal.summary(document("0", [], []), width=80) == [
        "held 0 · violated 0 · known 0 · not exercised 0 · invalid 0"
    ]


def test_a_surface_without_a_model_has_one_column():
    checks = [given.check("save-is-atomic", "held", surface="sessions", dialect="", mode="")]

    assert terminal.summary(document("0", [], checks), width=80)[:3] == [
        "rule             sessions",
        "",
        "save-is-atomic   ✓",
    ]


def test_colours_are_left_to_the_caller_and_cost_no_width():
    def style(text: str, **markup: bool) -> str:
        return f"<{'+'.join(sorted(markup))}>{text}</>"

    lines = terminal.summary(given.battery(), width=70, style=style)

    assert "<bold+red>✗</>      <green>✓</>       <bold+red>✗</>      <green>✓</>" in lines[3]
    assert lines[2].startswith("error-keeps-its-kind           <yellow>✗</>      <light>-</>")
    assert lines[-4] == "<bold+red>held 9 · violated 4 (must 3, may 1) · known 1 · not exercised 1</>"
    bare = list(terminal.summary(given.battery(), width=70))
    assert len(bare) == len(lines)


def test_a_clean_battery_is_green_and_an_idle_one_has_no_colour():
    def style(text: str, **markup: bool) -> str:
        return f"<{'+'.join(sorted(markup))}>{text}</>"

    clean = terminal.summary(document("0", [], [given.check("a", "held")]), width=70, style=style)
    idle = terminal.summary(document("0", [], [given.check("a", "not exercised")]), width=70, style=style)

    assert clean[-1].startswith("<green>held 1")
    assert idle[-1].startswith("held 0")


def test_names_from_outside_cannot_paint_the_summary():
    hostile = "\x1b[31mred\r\n✗"
    checks = [given.check(hostile, "held", agent=hostile, dialect=hostile)]
    checks.append(given.check("a", "not exercised", agent="b"))
    report = document("0", [AgentInfo(name=hostile, not_covered=(hostile,))], checks)

    for verbose in (True, False):
        for unicode in (True, False):
            lines = terminal.summary(report, width=60, unicode=unicode, verbose=verbose)
            assert all(line.isprintable() for line in lines)
            assert unicode or all(line.isascii() for line in lines)
    header = terminal.header(agent=hostile, seed=1, scenarios=1, dialects=1, modes=1, jobs=1, unicode=False)
    assert all(line.isprintable() and line.isascii() for line in header)
