"""Findings, invariants and the five outcomes: held, violated, not exercised, invalid, known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_agentguard._core.events import Event, LedgerFull, StreamEnded, WitnessFailed
from pytest_agentguard._core.ledger import Ledger


class Level(StrEnum):
    """How bad a violation is: harm or lost money, false success, debatable practice."""

    MUST = "must"
    SHOULD = "should"
    MAY = "may"

    @property
    def rank(self) -> int:
        """0 for must, 1 for should, 2 for may."""
        return ("must", "should", "may").index(self.value)


class Outcome(StrEnum):
    """What can be said of one rule in one run."""

    HELD = "held"
    VIOLATED = "violated"
    NOT_EXERCISED = "not exercised"
    INVALID = "invalid"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Finding:
    """One occasion of a rule: it was exercised, or it was violated; with the events that show it."""

    violated: bool
    summary: str
    evidence: tuple[Event, ...]
    level: Level | None = None  # None: the level of the invariant


def exercised(*evidence: Event) -> Finding:
    """There was an occasion to break the rule."""
    return Finding(False, "", evidence)


def violated(summary: str, *evidence: Event, level: Level | None = None) -> Finding:
    """The rule was broken; ``summary`` gives the facts as ``name=value``, evidence in ledger order."""
    return Finding(True, summary, tuple(sorted(evidence, key=lambda e: e.seq)), level)


Check = Callable[[Ledger], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule over a ledger, with its proof.

    ``check`` yields a finding at each occasion and at each breach. ``holds`` and ``breaks`` are the smallest
    ledgers that keep and break it, ``silent`` the clean look-alikes: they keep the rule or give no occasion.
    ``idle`` ledgers give no occasion, which ``occasion`` describes in words. ``why`` says why the rule
    exists, ``source`` names the fact behind it (a section of the wire facts or a requirement row), ``remedy``
    what to do about a violation. ``level`` is what a violation weighs unless the finding says otherwise.
    """

    check: Check
    level: Level
    why: str
    source: str
    remedy: str
    holds: Sequence[Ledger] = ()
    breaks: Sequence[Ledger] = ()
    silent: Sequence[Ledger] = ()
    idle: Sequence[Ledger] = field(default_factory=lambda: (Ledger(),))
    occasion: str = ""
    across_lanes: bool = False  # True: the rule compares lanes, so it reads the whole ledger at once
    id: str = ""  # given by the catalogue from the file name
    family: str = ""
    summary: str = ""  # first line of the file's docstring


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says about one ledger."""

    invariant: str
    outcome: Outcome
    level: Level
    summary: str = ""
    evidence: tuple[Event, ...] = ()
    occasions: int = 0


def judge(ledger: Ledger, invariant: Invariant) -> Verdict:
    """The verdict of one rule over one ledger; a ledger that proves nothing makes it invalid."""
    ledger = ledger.still()
    reason = unsound(ledger)
    if reason is not None:
        return Verdict(invariant.id, Outcome.INVALID, invariant.level, reason[0], reason[1:])
    parts = () if invariant.across_lanes else ledger.by_lane().values()
    return _verdict(invariant, [finding for part in parts or [ledger] for finding in invariant.check(part)])


def _verdict(invariant: Invariant, findings: Sequence[Finding]) -> Verdict:
    broken = [finding for finding in findings if finding.violated]
    if broken:
        worst = min(broken, key=lambda finding: (finding.level or invariant.level).rank)
        level = worst.level or invariant.level
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        return Verdict(
            invariant.id, Outcome.VIOLATED, level, worst.summary + more, worst.evidence, len(findings)
        )
    if findings:
        return Verdict(invariant.id, Outcome.HELD, invariant.level, "", findings[0].evidence, len(findings))
    return Verdict(invariant.id, Outcome.NOT_EXERCISED, invariant.level)


def unsound(ledger: Ledger) -> tuple[str, *tuple[Event, ...]] | None:
    """Why the ledger proves nothing, with the events that show it; None where it is sound."""
    return ledger.remembered(_unsound)


def _unsound(ledger: Ledger) -> tuple[str, *tuple[Event, ...]] | None:
    for full in ledger.of(LedgerFull):
        return (f"ledger full at limit_events={full.limit_events}", full)
    for broken in ledger.of(WitnessFailed):
        return (f"witness {broken.witness} failed: {broken.error}", broken)
    for start in ledger.ambiguous:
        return (f"tool={start.tool} fits several offered calls, some complete and some not", start)
    return next(undelivered(ledger), None)


def undelivered(ledger: Ledger) -> Iterator[tuple[str, StreamEnded]]:
    """Each fault that was planned and did not happen as planned, in words, with its receipt."""
    for end in ledger.of(StreamEnded):
        if end.end != "client-left" and (end.end != end.planned_end or not end.fired):
            ends = f"end={end.end} planned={end.planned_end} sent={end.sent} planned={end.planned}"
            yield f"fault of stream={end.stream} not delivered: {ends}", end
