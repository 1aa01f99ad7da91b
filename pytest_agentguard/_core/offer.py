"""Looks at what an adapter offers, where it is loaded: a name that does not exist would judge nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from pytest_agentguard._core.contracts import MODES, SURFACES, Adapter, Limits
from pytest_agentguard._core.errors import UsageError, unknown_name

BACKENDS = ("asyncio", "trio")
_CALLED = ("cancel", "kept", "fetch", "prepare", "start", "stop")


def look_at(adapter: Adapter, dialects: Iterable[str]) -> None:
    """Raise ``UsageError`` for the first field that cannot be meant so; ``dialects`` are those that exist."""
    for name, kind, known in (
        ("dialects", "dialect", tuple(dialects)),
        ("modes", "mode", MODES),
        ("surfaces", "surface", SURFACES),
    ):
        for value in _names(name, getattr(adapter, name)):
            if value not in known:
                raise unknown_name(kind, value, known)
    _names("distributions", adapter.distributions, may_be_empty=True)
    if adapter.backend not in BACKENDS:
        raise unknown_name("backend", str(adapter.backend), BACKENDS)
    if type(adapter.overlap) is not int or adapter.overlap < 1:
        raise UsageError(f"overlap takes a whole number from 1, not {adapter.overlap!r}")
    if "fetch" in adapter.surfaces and adapter.fetch is None:
        raise UsageError("surfaces has fetch, and there is no fetch=")
    if callable(adapter.fetch) and "fetch" not in adapter.surfaces:
        raise UsageError("there is a fetch=, and surfaces lacks fetch")
    _look_at_functions(adapter)
    _look_at_limits(adapter.declared)


def unknown_distribution(name: str, installed: Iterable[str]) -> UsageError:
    """The error for a distribution that the report is to name and that is not installed."""
    return unknown_name("distribution", name, installed)


def _names(field: str, value: Any, *, may_be_empty: bool = False) -> tuple[str, ...]:
    """The names in a field; a text would be read letter by letter, so it is none."""
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise UsageError(f"{field} takes a tuple of names, as in ({value!r},), not {value!r}")
    for name in value:
        if not isinstance(name, str):
            raise UsageError(f"{field} takes names, not {name!r}")
    if not (value or may_be_empty):
        raise UsageError(f"{field} is empty, so nothing would be judged")
    return tuple(value)


def _look_at_functions(adapter: Adapter) -> None:
    if not isinstance(adapter.name, str) or not adapter.name:
        raise UsageError(f"name takes a text, not {adapter.name!r}")
    if isinstance(adapter.run, type) or not callable(adapter.run):
        raise UsageError(f"run takes a function, not {adapter.run!r}")
    for field in _CALLED:
        value = getattr(adapter, field)
        if value is not None and not callable(value):
            raise UsageError(f"{field} takes a function or None, not {value!r}")


def _look_at_limits(declared: Any) -> None:
    if not isinstance(declared, Limits):
        raise UsageError(f"declared takes Limits(…), not {declared!r}")
    for field in dataclasses.fields(Limits):
        value = getattr(declared, field.name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or value <= 0
        ):
            raise UsageError(f"declared.{field.name} takes a number above 0, not {value!r}")
