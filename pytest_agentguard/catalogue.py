"""Reads the extension folders: one file is one invariant, fault, dialect or adapter; its name is its id."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pytest_agentguard._core.contracts import MODES, SURFACES, Adapter
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import UsageError, unknown_name
from pytest_agentguard._core.fault import Fault, Seen
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._core.verdict import Invariant, Level

_PACKAGE = "pytest_agentguard"
_ROOT = Path(__file__).parent
T = TypeVar("T")


@cache
def invariants() -> Mapping[str, Invariant]:
    """Every rule by id, families and ids in alphabetical order."""
    found: dict[str, Invariant] = {}
    for id, name in _rules().items():
        module, rule = _read(name, "INVARIANT", Invariant)
        _look_at_rule(module, rule)
        family = name.split(".")[-2].replace("_", "-")
        found[id] = replace(rule, id=id, family=family, summary=_first_line(module))
    return found


@cache
def dialects() -> Mapping[str, Dialect]:
    """Every dialect by id."""
    found: dict[str, Dialect] = {}
    for name in _names("dialects"):
        module, dialect = _read(f"dialects.{name}", "DIALECT", Dialect)
        found[_id(name)] = replace(dialect, id=_id(name), summary=_first_line(module))
    return found


@cache
def faults() -> Mapping[str, Fault]:
    """Every fault by id."""
    found: dict[str, Fault] = {}
    for name in _names("faults"):
        module, fault = _read(f"faults.{name}", "FAULT", Fault)
        _look_at_fault(module, fault)
        found[_id(name)] = replace(fault, id=_id(name), summary=_first_line(module))
    return found


@cache
def scenarios() -> Mapping[str, Scenario]:
    """The battery by id, in the order of the files and of the entries in them.

    The controls come first, and what takes all of a machine comes last.
    """
    found: dict[str, Scenario] = {}
    places: dict[str, str] = {}
    for name in _names("scenarios"):
        module, entries = _read(f"scenarios.{name}", "SCENARIOS", tuple)
        for scenario in entries:
            _look_at_scenario(module, scenario)
            if scenario.id in found:
                places_of = f"{places[scenario.id]} and {_place(module)}"
                raise UsageError(f"scenario {scenario.id!r} is defined twice: {places_of}")
            found[scenario.id], places[scenario.id] = scenario, _place(module)
    return dict(sorted(found.items(), key=lambda entry: (not entry[1].control, entry[1].heavy)))


def read_all() -> None:
    """Read every extension folder. Raises ``UsageError``, with the file, for the first flaw."""
    for read in (invariants, dialects, faults, scenarios):
        read()


def adapter_names() -> tuple[str, ...]:
    """Names of the shipped adapters; nothing is imported."""
    return tuple(_id(name) for name in _names("adapters"))


def dialect_names() -> tuple[str, ...]:
    """Ids of the dialects; nothing is imported."""
    return tuple(_id(name) for name in _names("dialects"))


def adapter(name: str) -> Adapter:
    """A shipped adapter by name. Raises ``UsageError`` where there is none of that name."""
    if name not in adapter_names():
        raise unknown_name("agent", name, adapter_names())
    _, found = _read(f"adapters.{name.replace('-', '_')}", "ADAPTER", Adapter)
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


# -- files ------------------------------------------------------------------------------------------


@cache
def _rules() -> Mapping[str, str]:
    """The module of each rule by its id; nothing of them is imported."""
    found: dict[str, str] = {}
    for family in _names("invariants"):
        folder = _ROOT / "invariants" / family
        if not folder.is_dir():
            raise UsageError(f"invariants/{family}.py is in no family: rules are in invariants/FAMILY/")
        for name in _names(f"invariants.{family}"):
            module = f"invariants.{family}.{name}"
            if _id(name) in found:
                both = f"{_file(found[_id(name)])} and {_file(module)}"
                raise UsageError(f"rule {_id(name)!r} is defined twice: {both}")
            found[_id(name)] = module
    return found


def _names(folder: str) -> Iterator[str]:
    """The modules and packages in a folder of ours, without those that begin with an underscore."""
    place = _ROOT / folder.replace(".", "/")
    for below in sorted(place.iterdir()):
        if below.is_dir() and not (below / "__init__.py").is_file() and any(below.glob("*.py")):
            raise UsageError(f"{below.relative_to(_ROOT)}/ has no __init__.py, so none of its files is read")
    return iter(sorted(m.name for m in pkgutil.iter_modules([str(place)]) if not m.name.startswith("_")))


def _read(name: str, constant: str, kind: type[T]) -> tuple[ModuleType, T]:
    """A module and its constant. Raises ``UsageError``, with the file, for whatever is wrong with it."""
    try:
        module = importlib.import_module(f"{_PACKAGE}.{name}")
    except UsageError as problem:
        raise UsageError(f"{_file(name)}: {problem}") from problem
    except Exception as problem:
        said = " ".join(str(problem).split())
        raise UsageError(f"{_file(name)}: {type(problem).__name__}: {said}") from problem
    value = getattr(module, constant, None)
    if value is None:
        raise UsageError(f"{_file(name)} has no {constant}")
    if not isinstance(value, kind):
        raise UsageError(f"{_file(name)}: {constant} is a {type(value).__name__}, not a {kind.__name__}")
    return module, value


def _id(name: str) -> str:
    return name.replace("_", "-")


def _file(name: str) -> str:
    """Where a module is, from the folder of the package."""
    return f"{name.replace('.', '/')}.py"


def _place(module: ModuleType) -> str:
    return _file(module.__name__.removeprefix(f"{_PACKAGE}."))


def _first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


# -- what is in them --------------------------------------------------------------------------------


def _look_at_rule(module: ModuleType, rule: Invariant) -> None:
    _look_at(module, callable(rule.check), "check", "a function", rule.check)
    _look_at(module, isinstance(rule.level, Level), "level", "Level.MUST, SHOULD or MAY", rule.level)
    for name in ("why", "source", "remedy", "occasion"):
        value = getattr(rule, name)
        _look_at(module, isinstance(value, str), name, "a text", value)
    for name in ("holds", "breaks", "silent", "idle"):
        value = getattr(rule, name)
        are_ledgers = isinstance(value, tuple | list) and all(isinstance(one, Ledger) for one in value)
        _look_at(module, are_ledgers, name, "ledgers", value)


def _look_at_fault(module: ModuleType, fault: Fault) -> None:
    _look_at(module, callable(fault.apply), "apply", "a function", fault.apply)
    _look_at(module, isinstance(fault.seen, Seen), "seen", "a Seen", fault.seen)
    are_modes = isinstance(fault.modes, tuple | list) and bool(fault.modes) and set(fault.modes) <= set(MODES)
    _look_at(module, are_modes, "modes", f"a tuple of {' and '.join(MODES)}", fault.modes)


def _look_at_scenario(module: ModuleType, scenario: Any) -> None:
    _look_at(module, isinstance(scenario, Scenario), "SCENARIOS", "scenarios", scenario)
    where = f"{_place(module)}: scenario {scenario.id!r}"
    for name in ("invariants", "dialects", "modes"):
        if isinstance(getattr(scenario, name), str):
            raise UsageError(f"{where}: {name} takes a tuple of names, not {getattr(scenario, name)!r}")
    for name, kind, known in _NAMED:
        for value in getattr(scenario, name):
            if value not in known():
                raise UsageError(f"{where}: {unknown_name(kind, str(value), known())}")
    if scenario.surface not in SURFACES:
        raise UsageError(f"{where}: {unknown_name('surface', str(scenario.surface), SURFACES)}")


_NAMED: tuple[tuple[str, str, Callable[[], Any]], ...] = (
    ("invariants", "rule", _rules),
    ("dialects", "dialect", dialect_names),
    ("modes", "mode", lambda: (*MODES, "both")),
)
"""The fields of a scenario that hold names, what they name, and what there is."""


def _look_at(module: ModuleType, is_right: bool, name: str, wanted: str, value: object) -> None:
    if not is_right:
        raise UsageError(f"{_place(module)}: {name} takes {wanted}, not {value!r}")
