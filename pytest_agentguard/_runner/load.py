"""From an agent's spec to its adapter: ``module:name``, ``path/to/file.py:name``, or a shipped name."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_agentguard._core.contracts import Adapter, is_plain
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._runner.orders import Hello


def load(spec: str, root: Path, path: Sequence[str] = ()) -> Adapter:
    """Import the agent, with ``root`` first on the path and ``path`` behind what is there already."""
    _extend_path(root, path)
    where, colon, name = spec.rpartition(":")
    if not colon:
        from pytest_agentguard import catalogue

        return catalogue.adapter(spec)
    module = _from_file(root / where) if where.endswith(".py") else importlib.import_module(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"agent {spec!r}: {where} has no {name!r}")
        found = getattr(found, part)
    if isinstance(found, Adapter):
        return found
    if isinstance(found, type) or not callable(found):
        raise UsageError(f"agent {spec!r} is neither a function nor an Adapter: {type(found).__name__}")
    return Adapter(name=spec, run=found)


def hello(adapter: Adapter) -> Hello:
    """What the adapter offers, with the versions of its distributions that are installed."""
    versions = {name: version for name in adapter.distributions if (version := _version(name))}
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
    )


def _extend_path(root: Path, path: Sequence[str]) -> None:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    sys.path.extend(entry for entry in path if entry not in sys.path)


def _from_file(file: Path) -> ModuleType:
    """The module of a file, as its own program would see it: its folder is on the path."""
    if not file.is_file():
        raise UsageError(f"agent file {str(file)!r} does not exist")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
