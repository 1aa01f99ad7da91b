"""Journal lines: one fact, one line of JSON. Who writes them to disk is none of this module's business."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_agentguard._core import events as _events
from pytest_agentguard._core import limits
from pytest_agentguard._core.events import Event, Witness

KINDS: dict[str, type[Event]] = {
    name: kind
    for name, kind in vars(_events).items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}
_TUPLES = {
    name: {f.name for f in dataclasses.fields(kind) if str(f.type).startswith("tuple")}
    for name, kind in KINDS.items()
}


def encode(t: float, kind: type[Event], fields: dict[str, Any]) -> bytes:
    """One line, newline included; values that JSON lacks are written as their ``repr``."""
    line = json.dumps([t, kind.__name__, fields], ensure_ascii=True, default=repr, separators=(",", ":"))
    if len(line) > limits.JOURNAL_LINE_BYTES:
        line = json.dumps(
            [t, kind.__name__, {name: _cut(value) for name, value in fields.items()}], default=repr
        )
    return line.encode("ascii") + b"\n"


def decode(lines: Iterable[bytes]) -> Iterator[tuple[float, type[Event], dict[str, Any]]]:
    """The facts of a journal; a line torn by a crash is the last one and is left out."""
    for line in lines:
        try:
            t, name, fields = json.loads(line)
            kind = KINDS[name]
        except (ValueError, KeyError):
            continue
        fields["witness"] = Witness(fields["witness"])
        for field in _TUPLES[name]:
            if field in fields:
                fields[field] = tuple(fields[field])
        yield t, kind, fields


def as_dict(event: Event) -> dict[str, Any]:
    """An event as data for reports: its kind under ``event``, and only the fields that say something."""
    data: dict[str, Any] = {
        "seq": event.seq,
        "t": event.t,
        "witness": str(event.witness),
        "event": type(event).__name__,
    }
    for field in dataclasses.fields(event):
        if field.name in data:
            continue
        value = getattr(event, field.name)
        if value != field.default and value not in ("", None, (), {}):
            data[field.name] = list(value) if isinstance(value, tuple) else value
    return data


def _cut(value: Any) -> Any:
    half = limits.JOURNAL_LINE_BYTES // 8
    return (
        f"{value[:half]}… ({len(value)} characters)"
        if isinstance(value, str) and len(value) > half
        else value
    )
