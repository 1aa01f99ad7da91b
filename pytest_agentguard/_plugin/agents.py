"""Which agents a session judges: named by option, ini file or conftest, else the reference."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_agentguard import catalogue
from pytest_agentguard._core.contracts import Adapter
from pytest_agentguard._core.errors import UsageError, unknown_name

DEFAULT = "reference"


def agent_specs(config: pytest.Config) -> tuple[str, ...]:
    """The specs of all agents, in order and without doubles.

    The command line wins over the ini option and the hook, which are added up. Raises ``UsageError`` for a
    spec that can be seen to be wrong before anything is imported.
    """
    chosen = config.getoption("agentguard_agent") or [*config.getini("agentguard_agents"), *_hooked(config)]
    specs = tuple(dict.fromkeys(chosen)) or (DEFAULT,)
    for spec in specs:
        _look_at(spec)
    return specs


def _hooked(config: pytest.Config) -> Iterable[str]:
    for answer in config.hook.pytest_agentguard_agents():
        values = answer if isinstance(answer, list | tuple) else [answer]
        for value in values:
            if value is not None:
                yield spec_of(value)


def spec_of(value: Any) -> str:
    """The spec under which another process can import ``value``: a string as it is, else ``file.py:name``."""
    if isinstance(value, str):
        return value
    function = value.run if isinstance(value, Adapter) else value
    if not callable(function):
        raise UsageError(f"pytest_agentguard_agents: {value!r} is neither a spec, a function nor an Adapter")
    module = sys.modules.get(getattr(function, "__module__", ""))
    path = getattr(module, "__file__", None) or (
        inspect.isfunction(function) and inspect.getsourcefile(function)
    )
    name = next((n for n, found in vars(module).items() if found is value), "") if module is not None else ""
    if not path or not name:
        raise UsageError(
            f"pytest_agentguard_agents: {value!r} is not a module-level name; "
            "give it as 'module:name' or 'file.py:name'"
        )
    return f"{path}:{name}"


def _look_at(spec: str) -> None:
    if ":" in spec:
        return
    if spec.endswith(".toml"):
        raise UsageError(f"agent {spec!r}: profiles of command-line agents are not supported yet")
    if spec not in catalogue.adapter_names():
        raise unknown_name("agent", spec, catalogue.adapter_names())
