"""Text that is safe to print: escaped, cut with its length, never wider than asked."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_agentguard._core import limits

_ASCII = {
    "…": "...",
    "·": "-",
    "×": "x",
    "✓": "+",
    "✗": "x",
}
"""Our own signs and what stands for them where there is no Unicode."""


def sign(text: str, unicode: bool) -> str:
    """Our own words, with the signs that the terminal has."""
    return text if unicode else "".join(_ASCII.get(c, c) for c in text)


def safe(text: str, unicode: bool = True) -> str:
    """Somebody else's words: what cannot be seen is escaped, so that nobody paints the report but us.

    Control characters, escape sequences, line and direction marks go everywhere, other scripts where the
    terminal has no Unicode.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() and (unicode or c.isascii()) else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if short is not None:
        return short
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """How many terminal columns ``text`` takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def clipped(text: str, width: int, unicode: bool = True) -> str:
    """``text`` on one line of at most ``width`` columns; what is missing shows as an ellipsis."""
    if columns(text) <= width:
        return text
    end = sign("…", unicode)
    if width <= len(end):
        return end[: max(0, width)]
    return _first(text, width - len(end)) + end


def cut(text: str, width: int, unicode: bool = True, length: int | None = None) -> str:
    """``text`` within ``width`` columns; of a longer one the beginning, and how long (``length``) it was."""
    if columns(text) <= width:
        return text
    end = f"{sign('…', unicode)} ({len(text) if length is None else length} characters)"
    return _first(text, max(0, width - len(end))) + end


def _first(text: str, width: int) -> str:
    taken = 0
    for n, character in enumerate(text):
        taken += _columns(character)
        if taken > width:
            return text[:n]
    return text


def shown(value: Any, unicode: bool = True) -> str:
    """A value as one line: plain words as they are, other text quoted, the rest as JSON."""
    match value:
        case bool() | int():
            return str(value)
        case float():
            return f"{value:g}"
        case str() if value and not set(value) & set(" \"'=,\\") and value.isprintable():
            return safe(value, unicode)
        case list() | tuple() if all(isinstance(v, str) for v in value):
            return ",".join(shown(v, unicode) for v in value)
        case str() if '"' in value and "'" not in value:
            return f"'{safe(value, unicode)}'"
    return quoted(value, unicode)


def quoted(value: Any, unicode: bool = True) -> str:
    """A value as JSON on one line, escaped; what JSON lacks is shown as its ``repr``."""
    try:
        text = json.dumps(value, ensure_ascii=not unicode, default=repr, skipkeys=True)
    except (ValueError, RecursionError):
        text = repr(value)
    return safe(text, unicode)


def call(tool: str, arguments: Any, unicode: bool = True, limit: int = limits.TEXT_SHOWN) -> str:
    """A call as people write it: ``record(x="evid")``; arguments that are no object stand as they came."""
    if not isinstance(arguments, Mapping):
        return f"{safe(tool, unicode)}({cut(quoted(arguments, unicode), limit, unicode)})"
    inside = ", ".join(f"{safe(str(n), unicode)}={quoted(v, unicode)}" for n, v in arguments.items())
    return f"{safe(tool, unicode)}({cut(inside, limit, unicode)})"


def wrapped(text: str, width: int, indent: str) -> list[str]:
    """``text`` in lines of at most ``width`` columns, every line but the first behind ``indent``.

    Room for the indent is kept in the first line too. Lines break at spaces, and inside words that are too
    long.
    """
    room = max(8, width - len(indent))
    lines, line = [], ""
    for word in re.split(r"(?<! )(?= )", text):
        if line and columns(line + word) > room:
            lines.append(line)
            line, word = "", word.lstrip(" ")
        while columns(word) > room:
            head = _first(word, room)
            lines.append(head)
            word = word[len(head) :]
        line += word
    lines.append(line)
    return [lines[0], *(indent + line for line in lines[1:])]


def command(text: str, width: int, indent: str) -> list[str]:
    """A shell command in lines that can be pasted: broken at options, continued with a backslash."""
    if columns(text) + len(indent) <= width:
        return [text]
    lines, line = [], ""
    for argument in _arguments(text):
        longer = f"{line} {argument}" if line else argument
        if line and columns(longer) + len(indent) + 2 > width:
            lines.append(line)
            longer = argument
        line = longer
    lines.append(line)
    return [(indent if n else "") + piece + " \\" * (n < len(lines) - 1) for n, piece in enumerate(lines)]


def _arguments(text: str) -> Iterable[str]:
    """The words of a command, each option together with its value, quotes left as they are."""
    words: list[str] = []
    quote, word = "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        if character == " " and not quote:
            words.append(word)
            word = ""
        else:
            word += character
    words.append(word)
    joined: list[str] = []
    for n, word in enumerate(words):
        option = n > 0 and words[n - 1].startswith("-") and not word.startswith("-")
        if option:
            joined[-1] += f" {word}"
        elif word:
            joined.append(word)
    return joined
