"""From an agent's spec to its adapter: ``module:name``, ``path/to/file.py:name``, or a shipped name."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_agentguard._core.contracts import Adapter, is_async, is_plain
from pytest_agentguard._core.errors import UsageError, nearest
from pytest_agentguard._core.offer import look_at, unknown_distribution
from pytest_agentguard._runner.cases import INTERRUPT
from pytest_agentguard._runner.orders import Hello


class NoSuchAgent(UsageError):
    """A spec that names nothing, or nothing that can be run."""


def load(spec: str, root: Path, path: Sequence[str] = ()) -> Adapter:
    """Import the agent, with ``root`` first on the path and ``path`` behind what is there already.

    Raises ``NoSuchAgent`` for a wrong spec; what the agent's own code raises goes on as it is.
    """
    _extend_path(root, path)
    where, colon, name = spec.rpartition(":")
    if not colon:
        from pytest_agentguard import catalogue

        return catalogue.adapter(spec)
    found: Any = _from_file(spec, root / where) if where.endswith(".py") else _from_module(spec, where)
    for part in name.split("."):
        if not hasattr(found, part):
            hint = nearest(part, (known for known in dir(found) if not known.startswith("_")))
            raise NoSuchAgent(f"agent {spec!r}: {where} has no {name!r}{hint}")
        found = getattr(found, part)
    if isinstance(found, Adapter):
        look_over(found, spec)
        return found
    if isinstance(found, type) or not callable(found):
        kind = "a class" if isinstance(found, type) else type(found).__name__
        raise NoSuchAgent(f"agent {spec!r} is neither a function nor an Adapter: it is {kind}")
    return Adapter(name=spec, run=found)


def look_over(adapter: Adapter, spec: str) -> None:
    """Raise ``NoSuchAgent`` where the adapter names something that does not exist."""
    from pytest_agentguard import catalogue

    try:
        look_at(adapter, catalogue.dialect_names())
    except UsageError as problem:
        raise NoSuchAgent(f"agent {spec!r}: {problem}") from None


def hello(adapter: Adapter, spec: str = "") -> Hello:
    """What the adapter offers, with the versions of its distributions.

    Raises ``NoSuchAgent`` for a distribution that is not installed: no version could be reported.
    """
    versions = {name: _version(name) for name in adapter.distributions}
    for name, version in versions.items():
        if not version:
            there = {str(found.name) for found in importlib.metadata.distributions()}
            problem = unknown_distribution(name, there)
            raise NoSuchAgent(f"agent {spec or adapter.name!r}: {problem}")
    return Hello(
        name=adapter.name,
        version=next(iter(versions.values()), ""),
        versions=versions,
        dialects=tuple(adapter.dialects),
        modes=tuple(adapter.modes),
        surfaces=tuple(adapter.surfaces),
        declared=adapter.declared,
        overlap=adapter.overlap,
        plain=is_plain(adapter),
        cancels="task" if is_async(adapter.run) else "call" if adapter.cancel is not None else INTERRUPT,
    )


def _extend_path(root: Path, path: Sequence[str]) -> None:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    sys.path.extend(entry for entry in path if entry not in sys.path)


def _from_module(spec: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if name != missing and not name.startswith(f"{missing}."):
            raise  # the module is there, and misses another one
    parent, _, last = missing.rpartition(".")
    siblings = pkgutil.iter_modules(getattr(sys.modules.get(parent), "__path__", () if parent else None))
    hint = nearest(last, (module.name for module in siblings))
    raise NoSuchAgent(f"agent {spec!r}: there is no module {missing!r}{hint}")


def _from_file(spec: str, file: Path) -> ModuleType:
    """The module of a file, as its own program would see it: its folder is on the path."""
    if not file.is_file():
        raise NoSuchAgent(f"agent {spec!r}: there is no file {str(file)!r}")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[file.stem] = module
    found.loader.exec_module(module)
    return module


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
