"""One fact on one line: number, witness, kind, and its fields in a useful order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import Event
from pytest_agentguard._core.journal import as_dict
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard.reports.text import clipped, columns, cut, safe, shown, sign

_FIRST: Mapping[str, tuple[str, ...]] = {
    "RunStarted": ("agent", "scenario", "dialect", "mode", "final", "limits"),
    "RunEnded": ("how", "answer", "error_type", "error", "code"),
    "RequestReceived": ("request", "turn", "kind", "credentials", "mode", "path", "dialect", "body_bytes"),
    "ReplyStarted": ("stream", "request", "label", "status"),
    "CallOffered": ("call", "tool", "stream", "arguments", "problem", "known", "call_id"),
    "StreamEnded": ("stream", "complete", "end", "planned_end", "sent", "planned"),
    "ToolStarted": ("call", "tool", "stream", "arguments"),
}
"""Fields that come first, by kind; the others follow in the order of their declaration."""

_HIDDEN = {"seq", "t", "witness", "event", "headers", "gap", "tools", "finished"}
"""Never shown: numbers that have a place of their own, clocks, what is too long to help or said elsewhere."""

LEAST = (2, 10, 12)  # columns of number, witness and kind in ``event_line``

_VALUE = 28  # columns that a cut value needs to say anything


@dataclass(frozen=True, slots=True)
class _Fact:
    """A fact with its heads and fields as text."""

    number: str
    witness: str
    kind: str
    fields: tuple[tuple[str, str, int], ...]  # name, text, characters of the value


def event_line(event: Event | Mapping[str, Any], width: int = 100, *, unicode: bool = True) -> str:
    """One fact; fields at their default are left out, long values are cut and say how long they were."""
    return _line(_fact(event, unicode), LEAST, width, unicode)


def event_lines(
    events: Iterable[Event | Mapping[str, Any]],
    width: int = 100,
    *,
    unicode: bool = True,
    hide: Collection[str] = (),
    show: Mapping[str, Mapping[str, Any]] | None = None,
    least: tuple[int, int, int] = (0, 0, 0),
) -> list[str]:
    """Facts below each other, as narrow as they are.

    ``hide`` names fields to leave out, ``show`` gives by kind the fields shown even at their default.
    """
    facts = [_fact(event, unicode, hide, show or {}) for event in events]
    if not facts:
        return []
    heads = (
        max(least[0], *(len(f.number) for f in facts)),
        max(least[1], *(len(f.witness) for f in facts)),
        max(least[2], *(len(f.kind) for f in facts)),
    )
    return [_line(fact, heads, width, unicode) for fact in facts]


def render_ledger(
    ledger: Ledger, *, width: int = 100, unicode: bool = True, limit_events: int = limits.EVENTS_SHOWN
) -> str:
    """Every fact of a ledger, one per line; beyond ``limit_events`` only how many there were."""
    events = list(ledger)
    lines = [f"ledger events={len(events)}"]
    lines += event_lines(events[:limit_events], width, unicode=unicode, least=LEAST)
    if len(events) > limit_events:
        lines.append(sign(f"  … {len(events) - limit_events} more", unicode))
    return "\n".join(lines)


def _fact(
    event: Event | Mapping[str, Any],
    unicode: bool,
    hide: Collection[str] = (),
    show: Mapping[str, Mapping[str, Any]] | None = None,
) -> _Fact:
    data = as_dict(event) if isinstance(event, Event) else dict(event)
    kind = str(data.get("event", "?"))
    fields = {**(show or {}).get(kind, {}), **_said(kind, data)}
    order = [n for n in _FIRST.get(kind, ()) if n in fields]
    order += [n for n in fields if n not in order]
    names = [n for n in order if n not in hide and n not in _HIDDEN]
    return _Fact(
        f"#{data.get('seq', 0)}",
        safe(str(data.get("witness", "?")), unicode),
        safe(kind, unicode),
        tuple(_field(n, fields[n], unicode) for n in names),
    )


def _field(name: str, value: Any, unicode: bool) -> tuple[str, str, int]:
    text = shown(value, unicode)
    return safe(name, unicode), text, len(value) if isinstance(value, str) else len(text)


def _said(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are shown: credentials as present or absent, a plan only where it was not kept."""
    fields = dict(data)
    if kind == "RequestReceived":
        fields["credentials"] = "present" if data.get("credentials") else "absent"
    if kind == "StreamEnded":
        if data.get("planned_end", "clean") == data.get("end", "clean"):
            fields.pop("planned_end", None)
        if data.get("planned") == data.get("sent"):
            fields.pop("planned", None)
    lane = fields.pop("lane", "")
    return {**fields, "lane": lane} if lane else fields


def _line(fact: _Fact, heads: tuple[int, int, int], width: int, unicode: bool) -> str:
    number, witness, kind = (max(least, len(text)) for least, text in zip(heads, _texts(fact), strict=True))
    line = f"  {fact.number:<{number}}  {fact.witness:<{witness}}  {fact.kind:<{kind}}"
    for n, (name, value, length) in enumerate(fact.fields):
        begin = f"{' ' if n else '  '}{name}="
        room = width - columns(line) - len(begin)
        if room < min(columns(value), _VALUE):
            line += clipped(f"{begin}{value}", max(0, width - columns(line)), unicode)
            break
        line += begin + cut(value, min(room, limits.TEXT_SHOWN), unicode, length)
    return clipped(line.rstrip(), width, unicode)


def _texts(fact: _Fact) -> tuple[str, str, str]:
    return fact.number, fact.witness, fact.kind
