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
_WRITTEN: dict[str, tuple[type, ...]] = {  # by the type of a field: what its JSON is read as
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "int | None": (int, type(None)),
    "float": (float, int),
    "float | None": (float, int, type(None)),
    "bool": (bool,),
    "tuple[str, ...]": (list,),
    "dict[str, Any]": (dict,),
    "dict[str, str]": (dict,),
    "Witness": (str,),
}
_FIELDS = {
    name: {f.name: _WRITTEN[str(f.type)] for f in dataclasses.fields(kind) if f.name not in ("seq", "t")}
    for name, kind in KINDS.items()
}
_TUPLES = {name: {n for n, read in fields.items() if list in read} for name, fields in _FIELDS.items()}

_UNFIT = (TypeError, ValueError, RecursionError)  # a key that is no string, a circle, too deep, too large


def encode(t: float, kind: type[Event], fields: dict[str, Any]) -> bytes:
    """One line, newline included; values that JSON lacks are written as their ``repr``."""
    try:
        line = _dumps([t, kind.__name__, fields])
    except _UNFIT:
        line = _dumps([t, kind.__name__, {name: ready(value) for name, value in fields.items()}])
    if len(line) > limits.JOURNAL_LINE_BYTES:
        line = _dumps([t, kind.__name__, {name: _cut(ready(value)) for name, value in fields.items()}])
    return line.encode("ascii") + b"\n"


def decode(lines: Iterable[bytes]) -> Iterator[tuple[float, type[Event], dict[str, Any]]]:
    """The facts of a journal; a line torn by a crash is left out, and so is what is no fact."""
    for line in lines:
        try:
            t, name, fields = json.loads(line)
            if not (isinstance(t, float | int) and _is_fact(name, fields)):
                continue
            fields["witness"] = Witness(fields["witness"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        for field in _TUPLES[name] & fields.keys():
            fields[field] = tuple(fields[field])
        yield t, KINDS[name], fields


def _is_fact(name: str, fields: dict[str, Any]) -> bool:
    """Whether every field belongs to it and has its type: an agent may write to the file as well."""
    known = _FIELDS[name]
    for field, value in fields.items():
        if not isinstance(value, known[field]):
            return False
        if type(value) is list and not all(type(member) is str for member in value):
            return False
    return True


def ready(value: Any) -> Any:
    """The value, or the nearest to it that JSON can hold; what it lacks becomes its ``repr``."""
    if _fits(value):
        return value
    if isinstance(value, dict):
        named = ((key if isinstance(key, str) else _shown(key), inner) for key, inner in value.items())
        return {name: inner if _fits(inner) else _shown(inner) for name, inner in named}
    return _shown(value)


def _fits(value: Any) -> bool:
    try:
        _dumps(value)
    except _UNFIT:
        return False
    return True


def _dumps(value: Any) -> str:
    return _ENCODER.encode(value)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # somebody else's __repr__
        return f"<{type(value).__name__} that has no repr>"


_ENCODER = json.JSONEncoder(  # made here: the program under test may replace `json.dumps`
    ensure_ascii=True, default=_shown, separators=(",", ":")
)


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
            data[field.name] = json.loads(_dumps(ready(value)))
    return data


def _cut(value: Any) -> Any:
    half = limits.JOURNAL_LINE_BYTES // 8
    if isinstance(value, dict):
        return {name: _cut(inner) for name, inner in value.items()}
    if isinstance(value, str) and len(value) > half:
        return f"{value[:half]}… ({len(value)} characters)"
    return value
