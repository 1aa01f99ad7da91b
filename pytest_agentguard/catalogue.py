"""Reads the extension folders: one file is one invariant, fault, dialect or adapter; its name is its id."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import TypeVar

from pytest_agentguard._core.contracts import Adapter
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import AgentguardError, UsageError, unknown_name
from pytest_agentguard._core.fault import Fault
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._core.verdict import Invariant

_PACKAGE = "pytest_agentguard"
T = TypeVar("T")


@cache
def invariants() -> Mapping[str, Invariant]:
    """Every rule by id, families and ids in alphabetical order."""
    found: dict[str, Invariant] = {}
    for family in _names(f"{_PACKAGE}.invariants"):
        for name in _names(f"{_PACKAGE}.invariants.{family}"):
            module = importlib.import_module(f"{_PACKAGE}.invariants.{family}.{name}")
            rule: Invariant = _constant(module, "INVARIANT", Invariant)
            id = name.replace("_", "-")
            found[id] = replace(rule, id=id, family=family.replace("_", "-"), summary=_first_line(module))
    return found


@cache
def dialects() -> Mapping[str, Dialect]:
    """Every dialect by id."""
    found: dict[str, Dialect] = {}
    for name in _names(f"{_PACKAGE}.dialects"):
        module = importlib.import_module(f"{_PACKAGE}.dialects.{name}")
        id = name.replace("_", "-")
        dialect: Dialect = _constant(module, "DIALECT", Dialect)
        found[id] = replace(dialect, id=id, summary=_first_line(module))
    return found


@cache
def faults() -> Mapping[str, Fault]:
    """Every fault by id."""
    found: dict[str, Fault] = {}
    for name in _names(f"{_PACKAGE}.faults"):
        module = importlib.import_module(f"{_PACKAGE}.faults.{name}")
        id = name.replace("_", "-")
        found[id] = replace(_constant(module, "FAULT", Fault), id=id, summary=_first_line(module))
    return found


@cache
def scenarios() -> Mapping[str, Scenario]:
    """The battery by id, in the order of the files and of the entries in them.

    The controls come first, and what takes all of a machine comes last.
    """
    found: dict[str, Scenario] = {}
    for name in _names(f"{_PACKAGE}.scenarios"):
        module = importlib.import_module(f"{_PACKAGE}.scenarios.{name}")
        for scenario in _constant(module, "SCENARIOS", tuple):
            if scenario.id in found:
                raise AgentguardError(f"scenario {scenario.id!r} is defined twice")
            found[scenario.id] = scenario
    return dict(sorted(found.items(), key=lambda entry: (not entry[1].control, entry[1].heavy)))


def adapter_names() -> tuple[str, ...]:
    """Names of the shipped adapters; nothing is imported."""
    return tuple(name.replace("_", "-") for name in _names(f"{_PACKAGE}.adapters"))


def adapter(name: str) -> Adapter:
    """A shipped adapter by name. Raises ``UsageError`` where there is none of that name."""
    if name not in adapter_names():
        raise unknown_name("agent", name, adapter_names())
    module = importlib.import_module(f"{_PACKAGE}.adapters.{name.replace('-', '_')}")
    found: Adapter = _constant(module, "ADAPTER", Adapter)
    return replace(found, name=name)


def invariant(id: str) -> Invariant:
    """A rule by id. Raises ``UsageError`` with the nearest id where there is none."""
    if id not in invariants():
        raise unknown_name("rule", id, invariants())
    return invariants()[id]


def dialect(id: str) -> Dialect:
    """A dialect by id. Raises ``UsageError`` with the nearest id where there is none."""
    if id not in dialects():
        raise unknown_name("dialect", id, dialects())
    return dialects()[id]


def fault(id: str) -> Fault:
    """A fault by id. Raises ``UsageError`` with the nearest id where there is none."""
    if id not in faults():
        raise unknown_name("fault", id, faults())
    return faults()[id]


def _names(package: str) -> Iterator[str]:
    path = importlib.import_module(package).__path__
    return iter(sorted(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_")))


def _constant(module: ModuleType, name: str, kind: type[T]) -> T:
    value = getattr(module, name, None)
    if not isinstance(value, kind):
        raise UsageError(f"{module.__name__} has no {name} of type {kind.__name__}")
    return value


def _first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]
