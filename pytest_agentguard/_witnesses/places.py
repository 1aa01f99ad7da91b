"""Places in source code: who asked for something, and where the code of something stands."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from types import CodeType, FrameType
from typing import NamedTuple

_STANDARD = os.path.dirname(os.__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_OURS = tuple(_PACKAGE + part + os.sep for part in ("_witnesses", "_runner", "_plugin"))
_INSTALLED = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))
_DEPTH = 100  # frames that are looked at


class Place(NamedTuple):
    """A line of a piece of code; text is only made of it where somebody wants to read it."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{_shown(self.file)}:{self.line} in {self.function}"


def asker(frame: FrameType | None) -> Place | None:
    """Who is behind a call, from ``frame`` outwards: the first frame of somebody's own code.

    Where there is none, the first of an installed package; never one of the standard library or of ours.
    """
    installed: FrameType | None = None
    for _ in range(_DEPTH):
        if frame is None:
            break
        match _owner(frame.f_code.co_filename):
            case "own":
                return _place(frame)
            case "installed" if installed is None:
                installed = frame
        frame = frame.f_back
    return None if installed is None else _place(installed)


def asker_of(places: Iterable[Place]) -> Place | None:
    """The same of a call whose frames are gone."""
    known = [place for place in places if _owner(place.file) in ("own", "installed")]
    return next((place for place in known if _owner(place.file) == "own"), known[0] if known else None)


def beginning(code: CodeType) -> Place | None:
    """Where a function or coroutine is defined; None in the standard library and in what is ours."""
    if _owner(code.co_filename) in ("standard", "ours"):
        return None
    return Place(code.co_filename, code.co_firstlineno, code.co_name)


def _place(frame: FrameType) -> Place:
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


@lru_cache(maxsize=4096)
def _owner(filename: str) -> str:
    if any(folder in filename for folder in _INSTALLED) and not filename.startswith(_PACKAGE):
        return "installed"
    if filename.startswith(_OURS):
        return "ours"
    if filename.startswith((_STANDARD, "<frozen ")):
        return "standard"
    return "own"


def _shown(filename: str) -> str:
    """Relative to the working directory where it is below it."""
    try:
        return filename.removeprefix(os.getcwd() + os.sep)
    except OSError:  # it is gone
        return filename
