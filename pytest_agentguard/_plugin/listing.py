"""``pytest --agentguard-list``: what there is, and nothing is run."""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
from collections.abc import Iterable

import pytest

from pytest_agentguard import catalogue
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._plugin.agents import agent_specs
from pytest_agentguard._plugin.settings import has_unicode
from pytest_agentguard.reports import listing


def show(config: pytest.Config) -> int:
    """Print agents, scenarios, rules, faults and dialects; the exit status is 0."""
    try:
        text = _text(config)
    except UsageError as problem:
        raise pytest.UsageError(str(problem)) from None
    print(text)
    return 0


def _text(config: pytest.Config) -> str:
    agents = {spec: "registered" for spec in agent_specs(config) if ":" in spec}
    agents |= {name: _described(name) for name in catalogue.adapter_names()}
    return listing.render(
        agents=agents,
        scenarios=catalogue.scenarios(),
        rules=catalogue.invariants(),
        faults=catalogue.faults(),
        dialects=catalogue.dialects(),
        width=shutil.get_terminal_size().columns,
        unicode=has_unicode(config),
    )


def _described(name: str) -> str:
    module = importlib.import_module(f"pytest_agentguard.adapters.{name.replace('-', '_')}")
    what = (module.__doc__ or "").strip().partition("\n")[0]
    return what + missing(catalogue.adapter(name).distributions)


def missing(distributions: Iterable[str]) -> str:
    """A note of the distributions that are not installed."""
    names = ", ".join(name for name in distributions if not _is_installed(name))
    return f"  [not installed: {names}]" if names else ""


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
