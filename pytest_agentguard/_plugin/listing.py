"""``pytest --agentguard-list``: what there is, and nothing is run."""

from __future__ import annotations

import importlib
import shutil

import pytest

from pytest_agentguard import catalogue
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._plugin.agents import agent_specs
from pytest_agentguard._plugin.settings import has_unicode
from pytest_agentguard.reports import listing


def show(config: pytest.Config) -> int:
    """Print agents, scenarios, rules and dialects; the exit status is 0."""
    try:
        registered = agent_specs(config)
    except UsageError as problem:
        raise pytest.UsageError(str(problem)) from None
    agents = {spec: "registered" for spec in registered if ":" in spec}
    agents |= {name: _described(name) for name in catalogue.adapter_names()}
    text = listing.render(
        agents=agents,
        scenarios=catalogue.scenarios(),
        rules=catalogue.invariants(),
        dialects=catalogue.dialects(),
        width=shutil.get_terminal_size().columns,
        unicode=has_unicode(config),
    )
    print(text)
    return 0


def _described(name: str) -> str:
    module = importlib.import_module(f"pytest_agentguard.adapters.{name.replace('-', '_')}")
    return (module.__doc__ or "").strip().partition("\n")[0]
