"""Which agents a session judges: named by option, ini file or conftest, else the reference."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_agentguard import catalogue
from pytest_agentguard._core.contracts import Adapter
from pytest_agentguard._core.errors import UsageError, nearest, unknown_name

DEFAULT = "reference"
_HOOK = "pytest_agentguard_agents"


def agent_specs(config: pytest.Config) -> tuple[str, ...]:
    """The specs of all agents, in order and without doubles.

    The command line wins over the ini option and the hook, which are added up. Raises ``UsageError`` for a
    spec that can be seen to be wrong before anything is imported.
    """
    root, here = config.rootpath, config.invocation_params.dir
    given = config.getoption("agentguard_agent")
    if given:
        chosen = [_from(here, spec, root) for spec in given]
    else:
        chosen = [*config.getini("agentguard_agents"), *_hooked(config)]
    specs = tuple(dict.fromkeys(chosen)) or (DEFAULT,)
    for spec in specs:
        _look_at(spec, root)
    return specs


def _from(here: Path, spec: str, root: Path) -> str:
    """A spec of the command line, whose file may be named from where pytest was started."""
    where, _, name = spec.rpartition(":")
    if not where.endswith(".py") or not (here / where).is_file():
        return spec
    return f"{_shortest(here / where, root)}:{name}"


def _hooked(config: pytest.Config) -> Iterable[str]:
    try:
        answers = config.hook.pytest_agentguard_agents()
    except Exception as problem:
        raise UsageError(f"{_HOOK} raised {type(problem).__name__}: {problem}") from problem
    plugins = [impl.plugin for impl in config.hook.pytest_agentguard_agents.get_hookimpls()]
    conftests = [vars(plugin) for plugin in plugins if isinstance(plugin, ModuleType)]
    for answer in answers:
        values = answer if isinstance(answer, list | tuple) else [answer]
        for value in values:
            if value is not None:
                yield spec_of(value, config.rootpath, conftests)


def spec_of(value: Any, root: Path, modules: Iterable[dict[str, Any]] = ()) -> str:
    """The spec under which another process can import ``value``: a string as it is, else ``file.py:name``.

    It is looked for where its function was defined, then in ``modules``.
    """
    if isinstance(value, str):
        return value
    function = value.run if isinstance(value, Adapter) else value
    if isinstance(value, type) or not callable(function):
        raise UsageError(f"{_HOOK}: {value!r} is neither a spec, a function nor an Adapter")
    for names in (*_where(function), *modules):
        file = names.get("__file__")
        name = next((name for name, found in names.items() if found is value), "")
        if isinstance(file, str) and name:
            return f"{_shortest(Path(file), root)}:{name}"
    raise UsageError(
        f"{_HOOK}: {value!r} is not a module-level name; give it as 'module:name' or 'file.py:name'"
    )


def _where(function: Any) -> Iterable[dict[str, Any]]:
    """The names of the modules in which a function may have been defined."""
    yield getattr(inspect.unwrap(function), "__globals__", {})
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    yield dict(vars(module)) if module is not None else {}


def _shortest(file: Path, root: Path) -> Path:
    """The path from the root where it lies below it, since it becomes part of ids."""
    file = file.absolute()
    return file.relative_to(root) if file.is_relative_to(root) else file


def _look_at(spec: str, root: Path) -> None:
    where, colon, name = spec.rpartition(":")
    if colon and not (where and name):
        raise UsageError(f"agent {spec!r} is neither module:name nor path/to/file.py:name")
    if where.endswith(".py") and not (root / where).is_file():
        files = [str(file.relative_to(root)) for file in root.glob("*.py")]
        hint = nearest(where, [file for file in files if file == Path(where).name] or files)
        raise UsageError(f"agent {spec!r}: there is no file {where!r}{hint}")
    if not colon:
        _look_at_name(spec, root)


def _look_at_name(name: str, root: Path) -> None:
    """``name`` is a shipped agent; where it is a module or a file, what follows it was forgotten."""
    if name.endswith(".toml"):
        raise UsageError(f"agent {name!r}: profiles of command-line agents are not supported yet")
    if name in catalogue.adapter_names():
        return
    if any(
        (root / file).is_file() for file in (name, f"{name.replace('.', '/')}.py") if file.endswith(".py")
    ):
        raise UsageError(f"agent {name!r} lacks the name of its function, as in {name}:run")
    raise unknown_name("agent", name, catalogue.adapter_names())
