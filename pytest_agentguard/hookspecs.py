"""Hooks that a conftest may implement."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookspec()
def pytest_agentguard_agents() -> Any:
    """Agents for the battery, as a list.

    Each is a spec (``"module:name"``), a function that can be imported by name, or such an ``Adapter``.
    """
