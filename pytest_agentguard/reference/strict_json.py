"""JSON as the standard has it: no NaN, no infinities, no key twice, nothing before or after the value."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

_DEPTH = 200  # of a whole response; far more than any dialect has


class NotJson(ValueError):
    """The text is not one JSON value; the message says why."""


class Members(dict[str, Any]):
    """An object as it stood in the text: ``pairs`` has every member, also those that a dict would lose."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def parse(text: str) -> Any:
    """The value of ``text``. Raises ``NotJson``."""
    return _loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)


def parse_loosely(text: str) -> Any:
    """The value of ``text``, irregularities kept for ``written`` to bring back. Raises ``NotJson``."""
    value = _loads(text, object_pairs_hook=Members)
    if depth(value) > _DEPTH:
        raise NotJson("nested too deeply")
    return value


def written(value: Any) -> str:
    """``value`` of ``parse_loosely`` as text again, so that ``parse`` judges exactly what had come."""
    if isinstance(value, Members):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(member)}" for key, member in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def depth(value: Any) -> int:
    """How many objects and arrays lie within each other."""
    level, found = [value], 0
    while level := [v for v in level if isinstance(v, dict | list)]:
        found += 1
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v)]
    return found


def _loads(text: str, **hooks: Any) -> Any:
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except NotJson:
        raise
    except ValueError as error:
        raise NotJson(str(error)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise NotJson("a key stands twice in one object")
    return members


def _refuse(word: str) -> NoReturn:
    raise NotJson(f"{word} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotJson(f"{text} is no finite number")
    return value
