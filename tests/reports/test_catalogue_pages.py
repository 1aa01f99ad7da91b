"""The pages of the catalogue and the listing, word for word."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agentguard import Fault, Finding, Invariant, Ledger, Level, Reply, Scenario, Seen
from pytest_agentguard.events import Event, StreamEnded, ToolStarted, Witness
from pytest_agentguard.reports import catalogue_pages, listing
from pytest_agentguard.reports.text import columns

CUT = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
RUN = ToolStarted(witness=Witness.TOOL_SPY, call="c1", tool="pay", stream="s1")

FAULTS = {
    "silence": Fault(Reply.stall, seen=Seen.SILENT, id="silence", summary="It stops."),
    "crlf": Fault(
        lambda reply: reply.newlines("\r\n"),
        seen=Seen.WHOLE, modes=("stream",), id="crlf", summary="Line ends change.",
    ),
}  # fmt: skip


def nothing(ledger: Ledger) -> Iterator[Finding]:
    return iter(())


def rule(id: str, family: str, *breaks: list[Event], **more: str) -> Invariant:
    texts = {"why": "A cut call is another call.", "source": "wire facts 6", "remedy": "Wait for the end."}
    ledgers = [Ledger(events) for events in breaks]
    fields = {**texts, "summary": f"The first line of {id}.", "occasion": "a cut", **more}
    return Invariant(nothing, level=Level.MUST, breaks=ledgers, id=id, family=family, **fields)


RULES = {
    "stall-ends": rule("stall-ends", "stream", [CUT]),
    "no-tool": rule("no-tool", "stream", [CUT, RUN], [RUN, CUT], [RUN], why="A cut call\nis another."),
    "no-request-past-budget": rule("no-request-past-budget", "budget"),
}
SCENARIOS = {
    "control": Scenario(id="control", summary="Nothing is wrong.", invariants=("no-tool",), control=True),
    "agree": Scenario(
        id="agree", summary="One | other.", invariants=("no-tool", "stall-ends"), modes=("both",), strict=True
    ),
    "cut": Scenario(
        id="cut", summary="A cut.", invariants=(), dialects=("anthropic",), modes=("stream",), surface="fetch"
    ),
}


def test_the_page_of_rules_groups_by_family_and_shows_what_breaks_each():
    assert (
        catalogue_pages.rules_page(RULES, SCENARIOS)
        == """\
# Rules

<!-- Made from the catalogue by `python tests/docs/generate.py --write`; do not edit. -->

3 rules in 2 families.

- **budget**: [no-request-past-budget](#no-request-past-budget)
- **stream**: [no-tool](#no-tool), [stall-ends](#stall-ends)

## Budget

### no-request-past-budget

The first line of no-request-past-budget.

- **level**: must
- **occasion**: a cut
- **why**: A cut call is another call.
- **source**: wire facts 6
- **remedy**: Wait for the end.

## Stream

### no-tool

The first line of no-tool.

- **level**: must
- **occasion**: a cut
- **why**: A cut call is another.
- **source**: wire facts 6
- **remedy**: Wait for the end.
- **scenarios**: `control`, `agree`

Broken by, 2 of 3:

```text
#1  endpoint  StreamEnded  stream=s1 complete=False
#2  tool-spy  ToolStarted  call=c1 tool=pay stream=s1
```

```text
#1  tool-spy  ToolStarted  call=c1 tool=pay stream=s1
#2  endpoint  StreamEnded  stream=s1 complete=False
```

### stall-ends

The first line of stall-ends.

- **level**: must
- **occasion**: a cut
- **why**: A cut call is another call.
- **source**: wire facts 6
- **remedy**: Wait for the end.
- **scenarios**: `agree`

Broken by:

```text
#1  endpoint  StreamEnded  stream=s1 complete=False
```
"""
    )


def test_the_page_of_scenarios_is_one_table_per_surface():
    link = "[no-tool](rules.md#no-tool)"
    assert (
        catalogue_pages.scenarios_page(SCENARIOS)
        == f"""\
# Scenarios

<!-- Made from the catalogue by `python tests/docs/generate.py --write`; do not edit. -->

3 scenarios. The control comes first.

## Chat

| scenario | what happens | where | rules |
|---|---|---|---|
| `control` | Nothing is wrong. | stream and block, control | {link} |
| `agree` | One \\| other. | stream against block, strict only | {link}, [stall-ends](rules.md#stall-ends) |

## Fetch

| scenario | what happens | where | rules |
|---|---|---|---|
| `cut` | A cut. | anthropic, stream |  |
"""
    )


def test_the_page_of_mutants_names_the_rules_that_no_mutant_breaks():
    table = {"runs-cut-calls": {"no-tool", "stall-ends"}, "asks-for-ever": ["stall-ends"]}

    assert (
        catalogue_pages.mutants_page(table, RULES).split("\n\n", 3)[3]
        == """\
| mutant | rules that it breaks |
|---|---|
| `asks-for-ever` | [stall-ends](rules.md#stall-ends) |
| `runs-cut-calls` | [no-tool](rules.md#no-tool), [stall-ends](rules.md#stall-ends) |

Rules without a mutant: `no-request-past-budget`.
"""
    )
    assert "Rules without a mutant: none.\n" in catalogue_pages.mutants_page({"all": list(RULES)}, RULES)


def test_the_page_of_faults_says_what_a_client_sees_and_which_kind_rules_see():
    page = catalogue_pages.faults_page(FAULTS)

    assert "\n| `silence` | It stops. | silent | stream and block | `stall` |\n" in page
    assert page.endswith("| `crlf` | Line ends change. | whole | stream |  |\n")


def test_a_long_example_is_cut_and_counted():
    page = catalogue_pages.rules_page({"r": rule("r", "stream", [CUT] * 20)})

    assert page.count("StreamEnded") == 14
    assert "\n… 6 more\n```" in page


def test_the_listing_names_everything_with_its_line():
    agents = {"reference": "the agent that comes along", "mine:run": ""}

    assert listing.render(
        agents=agents, scenarios=SCENARIOS, rules=RULES, faults=FAULTS, dialects={}, width=60
    ) == "\n".join(
        [
            "agents (2)",
            "  reference  the agent that comes along",
            "  mine:run",
            "",
            "scenarios (3)  [surface, and what it is restricted to]",
            "  control  Nothing is wrong.  [chat, control]",
            "  agree    One | other.  [chat, strict, both]",
            "  cut      A cut.  [fetch, anthropic, stream]",
            "",
            "rules (3)  [family, level]",
            "  no-request-past-budget  The first line of",
            "                          no-request-past-budget.  [budget,",
            "                          must]",
            "  no-tool                 The first line of no-tool.",
            "                          [stream, must]",
            "  stall-ends              The first line of stall-ends.",
            "                          [stream, must]",
            "",
            "faults (2)  [what a correct client sees]",
            "  silence  It stops.  [silent]",
            "  crlf     Line ends change.  [whole, stream]",
            "",
            "dialects (0)",
        ]
    )


def test_the_listing_fits_a_narrow_plain_terminal():
    for width in range(20, 120):
        text = listing.render(
            agents={"a": "é \x1b[31m"},
            scenarios=SCENARIOS,
            rules=RULES,
            faults=FAULTS,
            dialects={},
            width=width,
            unicode=False,
        )
        assert text.isascii()
        assert max(columns(line) for line in text.split("\n")) <= width
        assert all(line.isprintable() for line in text.split("\n"))
