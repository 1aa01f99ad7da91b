"""Finds canaries in requests, however clients encode them, and keeps them out of the record. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from pytest_agentguard._witnesses.http_request import HttpRequest

_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|([bfnrt"\\/]))""")
_MEANT = dict(zip("bfnrt", "\b\f\n\r\t", strict=True))
_JSON_IN_JSON = 2  # strings of JSON inside strings of JSON are read so many times


def found(canaries: Mapping[str, str], request: HttpRequest) -> tuple[str, ...]:
    """Where canaries came, each place once: ``NAME in url``, ``NAME in header X``, ``NAME in body``."""
    if not canaries:
        return ()
    places = [(place, {*_readings(text)}) for place, text in _texts(request)]
    return tuple(
        dict.fromkeys(
            f"{name} in {place}"
            for name, value in canaries.items()
            for place, readings in places
            if any(value in reading for reading in readings)
        )
    )


def masked(canaries: Mapping[str, str], text: str) -> str:
    """The text with the names of canaries for their values, in the forms that clients write them in."""
    for name, value in canaries.items():
        for form in _written(value):
            text = text.replace(form, f"{{{name}}}")
    return text


def _texts(request: HttpRequest) -> Iterator[tuple[str, str]]:
    for text in _decoded(request.target):
        yield "url", text
    for name, value in request.headers:
        for text in (*_decoded(value), *_basic(value)):
            yield f"header {name}", text
    yield "body", request.body.decode("utf-8", "replace")
    if not request.body.isascii():
        yield "body", request.body.decode("latin-1")


def _decoded(text: str) -> tuple[str, ...]:
    """What is read as Latin-1, and the same as UTF-8."""
    if text.isascii():
        return (text,)
    return text, text.encode("latin-1", "replace").decode("utf-8", "replace")


def _basic(value: str) -> Iterator[str]:
    """What is in a header that is base64 as in ``Basic …``."""
    scheme, _, rest = value.partition(" ")
    if scheme.lower() == "basic":
        try:
            yield base64.b64decode(rest, validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return


def _readings(text: str) -> Iterator[str]:
    """The text, and what it says where it is percent-encoded, JSON, or one in the other."""
    for reading in dict.fromkeys((text, unquote(text), unquote_plus(text))):
        yield reading
        for _ in range(_JSON_IN_JSON):
            if "\\" not in reading:
                break
            reading = _unescaped(reading)
            yield reading


def _unescaped(text: str) -> str:
    """The text with what a backslash stands for in JSON, pairs of surrogates joined."""
    text = _ESCAPE.sub(_meant, text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _meant(escape: re.Match[str]) -> str:
    code, letter = escape.groups()
    return chr(int(code, 16)) if code else _MEANT.get(letter, letter)


def _written(value: str) -> list[str]:
    """How clients write a value, the longest first."""
    spelled = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    bytes_ = value.encode("utf-8", "replace")
    return sorted(
        {*spelled, quote(bytes_), quote(bytes_, safe=""), quote_plus(bytes_)}, key=len, reverse=True
    )
