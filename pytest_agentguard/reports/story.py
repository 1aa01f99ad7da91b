"""The story of one check: what was offered, delivered, done and claimed, and the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import FetchStarted
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.report import Check
from pytest_agentguard._core.verdict import Outcome, Verdict
from pytest_agentguard.reports.event_lines import LEAST, event_line, event_lines, render_ledger
from pytest_agentguard.reports.text import clipped, columns, command, cut, safe, sign, wrapped
from pytest_agentguard.reports.told import Telling, stream_of
from pytest_agentguard.reports.told_fetch import FetchTelling

__all__ = ["event_line", "grouped", "render", "render_finding", "render_ledger"]

_INDENT = " " * 11
_HIDE = {
    "invocation",
    "nonce",
    "call",
    "begun",
    "whole",
    "arguments_sent",
    "text_sent",
    "planned",
    "planned_end",
}
_SHOW = {"StreamEnded": {"end": "clean"}}
_CONTROL_FAILED = "control failed: "
_TOLD_ELSEWHERE = "the same job with nothing wrong has to work first; see the control"
_PROVES_NOTHING = "a run whose control or fault did not work proves nothing"
EVIDENCE_SHOWN = 12  # evidence lines of one story, then only how many more


def render(
    *,
    agent: str,
    scenario: str,
    dialect: str,
    mode: str,
    check: Check,
    ledger: Ledger,
    hint: str = "",
    label: str = "",
    rerun: str = "",
    also: Sequence[str] = (),
    width: int = 100,
    unicode: bool = True,
) -> str:
    """The story of a check that fails.

    ``hint`` says in one sentence why this is wrong; ``label`` names the lane of a sweep that broke first;
    ``rerun`` is the command that runs this case again, broken over lines only where a shell allows it. What
    is invalid because the control failed says no more than that: the control has a story of its own.
    ``also`` are the rules that are invalid for the same reason.
    """
    lanes = ledger.by_lane()
    own = lanes.get(_lane(check, label), Ledger() if len(lanes) > 1 else ledger)
    streams = [str(e["stream"]) for e in check.evidence if e.get("stream")]
    told = [] if _is_told_elsewhere(check) else list(_told(Telling(own, stream_of(own, streams), unicode)))
    rows = _rows(check, told, _first(label, len(lanes)) if label else "", hint, also)
    level = "invalid" if check.outcome == Outcome.INVALID else check.level
    where = f"{dialect}, {mode}" if dialect else check.surface
    lines = _title((agent, check.invariant, where, level), width, unicode)
    lines += [line for name, text in rows if text for line in _row(name, text, width, unicode)]
    lines += [] if _is_told_elsewhere(check) else _evidence(check.evidence, set(streams), width, unicode)
    if rerun:
        again = command(safe(rerun, unicode), width, _INDENT)
        lines += [f"{'rerun':<11}{again[0]}", *again[1:]]
    return "\n".join(lines)


def _is_told_elsewhere(check: Check) -> bool:
    """Whether it is invalid because of the control, which has a story of its own."""
    invalid = check.outcome == Outcome.INVALID and check.invariant != "control"
    return invalid and check.summary.startswith(_CONTROL_FAILED)


def _rows(
    check: Check, told: Iterable[tuple[str, str]], sweep: str, hint: str, also: Sequence[str]
) -> list[tuple[str, str]]:
    """What a story says, by name; empty texts are left out."""
    if check.outcome == Outcome.INVALID:
        why = _TOLD_ELSEWHERE if _is_told_elsewhere(check) else _PROVES_NOTHING
        return [
            ("invalid", check.summary),
            *told,
            ("sweep", sweep),
            ("why", why),
            ("and so", ", ".join(also)),
        ]
    return [*told, ("sweep", sweep), ("finding", check.summary), ("why", hint)]


def grouped(checks: Iterable[Check]) -> list[tuple[Check, tuple[str, ...]]]:
    """The checks that each have a story, with the rules that are invalid for the very same reason."""
    stories: list[tuple[Check, list[str]]] = []
    told: dict[str, list[str]] = {}
    for check in checks:
        reason = check.summary.removeprefix(_CONTROL_FAILED)
        if check.outcome == Outcome.INVALID and reason in told:
            told[reason].append(check.invariant)
            continue
        stories.append((check, []))
        if check.outcome == Outcome.INVALID:
            told[reason] = stories[-1][1]
    return [(check, tuple(also)) for check, also in stories]


def render_finding(
    verdict: Verdict,
    ledger: Ledger,
    *,
    occasion: str = "",
    rerun: str = "",
    width: int = 100,
    unicode: bool = True,
) -> str:
    """What one rule says about the ledger of a test: facts, evidence in order, how to run it again.

    ``occasion`` says in words what the rule needs to be exercised.
    """
    lines = [f"{verdict.invariant} {verdict.outcome}"]
    for fact in _facts(verdict, ledger, occasion):
        lines += [f"  {line}" for line in wrapped(safe(fact, unicode), width - 2, "  ")]
    shown = verdict.evidence[:EVIDENCE_SHOWN]
    evidence = event_lines(shown, width - 2, unicode=unicode, hide=_HIDE - {"call"}, least=LEAST)
    lines += [f"  {line}" for line in [*evidence, *_rest(verdict.evidence, unicode)]]
    lines = [clipped(line, width, unicode) for line in lines]
    if rerun:
        again = command(safe(rerun, unicode), width, " " * 9)
        lines += [f"  rerun: {again[0]}", *again[1:]]
    return "\n".join(lines)


def _facts(verdict: Verdict, ledger: Ledger, occasion: str) -> Iterator[str]:
    if verdict.outcome is Outcome.NOT_EXERCISED:
        yield f"occasion missing: {occasion}" if occasion else "occasion missing"
        kinds = [type(event).__name__ for event in ledger]
        seen = " ".join(f"{kind}={kinds.count(kind)}" for kind in dict.fromkeys(kinds))
        yield f"seen: {seen or 'nothing'}"
    elif verdict.outcome is Outcome.HELD:
        yield f"occasions={verdict.occasions}"
    elif verdict.summary:
        yield verdict.summary


def _told(telling: Telling) -> Iterable[tuple[str, str]]:
    if telling.ledger.of(FetchStarted):
        yield from FetchTelling(telling.ledger, telling.unicode).rows()
        return
    if telling.stream:
        yield "offered", telling.offered()
        yield "delivered", telling.delivered()
    if len(telling.ledger):
        yield "done", telling.done()
    yield "claimed", telling.claimed()
    yield "stderr", telling.last_words()


def _lane(check: Check, label: str) -> str:
    """The lane that the story is about; empty where nothing names one."""
    named = re.search(r"\blane=(\S+)", check.summary)
    return next(
        (str(e["lane"]) for e in check.evidence if e.get("lane")), label or (named[1] if named else "")
    )


def _first(label: str, tried: int) -> str:
    what = "offset" if any(c.isdigit() for c in label) else "lane"
    return f"first {what} that breaks: {label}" + (f", {tried} tried" if tried > 1 else "")


def _title(parts: Iterable[str], width: int, unicode: bool) -> list[str]:
    name = safe(sign(" · ", unicode).join(parts), unicode)
    if columns(name) + 10 <= width:
        return [f"____ {name} ____"]
    return [clipped(line, width, unicode) for line in wrapped(name, width, "  ")]


def _row(name: str, text: str, width: int, unicode: bool) -> list[str]:
    text = safe(sign(cut(text, 4 * limits.TEXT_SHOWN, unicode), unicode), unicode)
    head = f"{name:<11}"
    if columns(text) + len(head) <= width:
        return [head + text]
    lines = wrapped(text, width, _INDENT)
    return [clipped(line, width, unicode) for line in [head + lines[0], *lines[1:]]]


def _evidence(
    evidence: tuple[dict[str, Any], ...], streams: set[str], width: int, unicode: bool
) -> list[str]:
    lanes = {e.get("lane", "") for e in evidence}
    hide = _HIDE | ({"stream"} if len(streams) == 1 else set()) | ({"lane"} if len(lanes) == 1 else set())
    lines = event_lines(evidence[:EVIDENCE_SHOWN], width, unicode=unicode, hide=hide, show=_SHOW)
    return [*lines, *_rest(evidence, unicode)]


def _rest(evidence: Sequence[object], unicode: bool) -> list[str]:
    more = len(evidence) - EVIDENCE_SHOWN
    return [sign(f"  … {more} more", unicode)] if more > 0 else []
