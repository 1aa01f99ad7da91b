"""All outcomes of a rule, and every reason for which a ledger proves nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_agentguard import Finding, Invariant, Ledger, Level, Outcome, exercised, judge, violated
from pytest_agentguard._core.verdict import undelivered, unsound
from pytest_agentguard.events import (
    CallOffered,
    Claim,
    Event,
    LedgerFull,
    StreamEnded,
    ToolStarted,
    Witness,
    WitnessFailed,
)

LEVELS = {"bad": Level.MUST, "poor": Level.SHOULD, "odd": Level.MAY}


def claims(ledger: Ledger) -> Iterator[Finding]:
    for claim in ledger.of(Claim):
        yield exercised(claim)
        if claim.value:
            yield violated(f"what={claim.what}", claim, level=LEVELS.get(claim.value))


RULE = Invariant(claims, Level.SHOULD, "why", "source", "remedy", id="no-claims")


def claim(what: str, value: str = "", lane: str = "") -> Claim:
    return Claim(witness=Witness.AGENT, what=what, value=value, lane=lane)


def ended(**fields: object) -> StreamEnded:
    given: dict[str, object] = {"stream": "s1", "complete": True, "sent": 4, "planned": 9, **fields}
    return StreamEnded(witness=Witness.ENDPOINT, **given)  # type: ignore[arg-type]


def test_without_an_occasion_a_rule_is_not_exercised() -> None:
    verdict = judge(Ledger([ended()]), RULE)
    assert (verdict.outcome, verdict.level, verdict.occasions) == (Outcome.NOT_EXERCISED, Level.SHOULD, 0)


def test_with_occasions_and_no_breach_a_rule_is_held() -> None:
    first = claim("a")
    verdict = judge(Ledger([first, claim("b")]), RULE)
    assert (verdict.outcome, verdict.evidence, verdict.occasions) == (Outcome.HELD, (first,), 2)


def test_a_breach_is_violated_with_its_evidence() -> None:
    bad = claim("b", "x")
    verdict = judge(Ledger([claim("a"), bad]), RULE)
    assert (verdict.outcome, verdict.level) == (Outcome.VIOLATED, Level.SHOULD)
    assert (verdict.summary, verdict.evidence, verdict.invariant) == ("what=b", (bad,), "no-claims")


def test_the_worst_breach_speaks_and_counts_the_others() -> None:
    verdict = judge(Ledger([claim("a", "odd"), claim("b", "bad"), claim("c", "poor")]), RULE)
    assert (verdict.level, verdict.summary) == (Level.MUST, "what=b (and 2 more)")


def test_among_equal_breaches_the_first_speaks() -> None:
    assert judge(Ledger([claim("a", "x"), claim("b", "poor")]), RULE).summary == "what=a (and 1 more)"


def test_evidence_is_in_ledger_order() -> None:
    ledger = Ledger([claim("a"), claim("b")])
    first, second = ledger
    assert violated("x", second, first).evidence == (first, second)


def test_each_lane_is_judged_by_itself() -> None:
    def alone(ledger: Ledger) -> Iterator[Finding]:
        found = ledger.of(Claim)
        yield violated(f"claims={len(found)}", *found) if len(found) > 1 else exercised(*found)

    ledger = Ledger([claim("a", lane="1"), claim("b", lane="2")])
    rule = Invariant(alone, Level.MUST, "why", "source", "remedy")
    across = Invariant(alone, Level.MUST, "why", "source", "remedy", across_lanes=True)
    assert judge(ledger, rule).outcome is Outcome.HELD
    assert judge(ledger, rule).occasions == 2
    assert judge(ledger, across).outcome is Outcome.VIOLATED


OFFER = CallOffered(witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay")
OTHER = CallOffered(witness=Witness.ENDPOINT, stream="s2", call="s2.c1", tool="pay")
RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay")
UNSOUND: dict[str, tuple[list[Event], str]] = {
    "full": ([LedgerFull(witness=Witness.LEDGER, limit_events=3)], "ledger full at limit_events=3"),
    "broken witness": (
        [WitnessFailed(witness=Witness.TOOL_SPY, error="no space")],
        "witness tool-spy failed: no space",
    ),
    "ambiguous": (
        [OFFER, ended(complete=False), OTHER, ended(stream="s2"), RUN],
        "tool=pay fits several offered calls, some complete and some not",
    ),
    "not fired": (
        [ended(fired=False)],
        "fault of stream=s1 not delivered: end=clean planned=clean sent=4 planned=9",
    ),
    "server failed": (
        [ended(end="server-failed")],
        "fault of stream=s1 not delivered: end=server-failed planned=clean sent=4 planned=9",
    ),
    "another end": (
        [ended(end="clean", planned_end="reset")],
        "fault of stream=s1 not delivered: end=clean planned=reset sent=4 planned=9",
    ),
}


@pytest.mark.parametrize(("events", "summary"), UNSOUND.values(), ids=UNSOUND)
def test_a_ledger_that_proves_nothing_makes_every_rule_invalid(events: list[Event], summary: str) -> None:
    verdict = judge(Ledger([claim("a", "bad"), *events]), RULE)
    assert (verdict.outcome, verdict.level, verdict.summary) == (Outcome.INVALID, Level.SHOULD, summary)
    assert verdict.evidence


@pytest.mark.parametrize(
    "end",
    [
        ended(),
        ended(end="reset", planned_end="reset"),
        ended(end="client-left", planned_end="stalled"),
        ended(end="client-left", planned_end="reset", fired=False),
    ],
)
def test_a_fault_that_was_delivered_or_not_waited_for_is_sound(end: StreamEnded) -> None:
    assert unsound(Ledger([end])) is None
    assert list(undelivered(Ledger([end]))) == []


def test_one_unsound_lane_spoils_the_run() -> None:
    ledger = Ledger([claim("a", lane="1"), ended(fired=False, lane="2")])
    assert judge(ledger, RULE).outcome is Outcome.INVALID


def test_levels_are_ranked_from_harm_to_taste() -> None:
    assert [level.rank for level in (Level.MUST, Level.SHOULD, Level.MAY)] == [0, 1, 2]
    assert [str(outcome) for outcome in Outcome] == ["held", "violated", "not exercised", "invalid", "known"]
