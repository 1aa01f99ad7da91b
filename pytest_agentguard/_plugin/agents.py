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
_DEPTHS = ("*.py", "*/*.py", "*/*/*.py")  # where a file is looked for that was named without its folder


def agent_specs(config: pytest.Config) -> tuple[str, ...]:
    """The specs of all agents, in order and without doubles.

    The command line replaces the ini option and the hook, which are added up; where none of them says
    anything, the reference is judged. Raises ``UsageError`` for a spec that can be seen to be wrong before
    anything is imported.
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


def _hooked(config: pytest.Config) -> list[str]:
    """What the hook gives. Whoever implements it wants other agents judged than the reference."""
    caller = config.hook.pytest_agentguard_agents
    plugins = [found.plugin for found in caller.get_hookimpls() if not (found.wrapper or found.hookwrapper)]
    conftests = [vars(plugin) for plugin in plugins if isinstance(plugin, ModuleType)]
    specs: list[str] = []
    for plugin in reversed(plugins):  # the order in which pytest calls them
        where = _shown(plugin, config.rootpath)
        answer = _answer(config, plugin, plugins, where)
        values = answer if isinstance(answer, list | tuple) else [answer]
        specs += [spec_of(value, config.rootpath, conftests) for value in values]
    if plugins and not specs and not config.getini("agentguard_agents"):
        where = ", ".join(_shown(plugin, config.rootpath) for plugin in plugins)
        raise UsageError(f"{_HOOK} of {where} gave no agent; to judge the reference, give 'reference'")
    return specs


def _answer(config: pytest.Config, plugin: object, plugins: list[object], where: str) -> Any:
    """What one plugin answers to the hook."""
    others = [other for other in plugins if other is not plugin]
    try:
        answers = config.pluginmanager.subset_hook_caller(_HOOK, others)()
    except Exception as problem:
        raise UsageError(f"{_HOOK} of {where} raised {type(problem).__name__}: {problem}") from problem
    if not answers:  # pytest leaves None out
        raise UsageError(f"{_HOOK} of {where} returned None; it returns a list of agents")
    return answers[0]


def _shown(plugin: object, root: Path) -> str:
    """Where a plugin is."""
    file = getattr(plugin, "__file__", None)
    return str(_shortest(Path(file), root)) if file else type(plugin).__name__


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
        raise UsageError(f"agent {spec!r}: there is no file {where!r} in {root}{_near(where, root)}")
    if not colon:
        _look_at_name(spec, root)


def _near(where: str, root: Path) -> str:
    """The hint at a file of the same name, not too deep below the root, or else at one of a similar name."""
    files = [str(file.relative_to(root)) for below in _DEPTHS for file in sorted(root.glob(below))]
    return nearest(where, [file for file in files if Path(file).name == Path(where).name] or files)


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
