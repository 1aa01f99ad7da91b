"""The lenient parser that mutants share: it closes what is open, as streaming parsers for partial JSON do."""

from __future__ import annotations

import json
from typing import Any


def mended(text: str) -> dict[str, Any] | None:
    """An object made of arguments that were cut; None where nothing can be made of them."""
    for end in range(len(text), 0, -1):  # what cannot be closed at its end is dropped
        try:
            value = json.loads(_closed(text[:end]))
        except ValueError:
            continue
        return value if isinstance(value, dict) else None
    return None


def _closed(text: str) -> str:
    """``text`` with its open string, arrays and objects closed."""
    closers: list[str] = []
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "{[":
            closers.append("}" if character == "{" else "]")
        elif character in "}]" and closers:
            closers.pop()
    return text + ('"' if inside else "") + "".join(reversed(closers))
