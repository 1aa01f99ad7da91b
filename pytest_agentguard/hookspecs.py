"""Hooks that a conftest may implement."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookspec()
def pytest_agentguard_agents() -> Any:
    """Agents for the battery: a list of specs (``"module:name"``), functions importable by name, or ``Adapter`` values."""
