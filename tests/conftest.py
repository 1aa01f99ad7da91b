"""What every test may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mutants.table import Evidence

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """What the battery says of every mutant, the reference and idle agents: computed once in a session."""
    from mutants import once

    base = tmp_path_factory.getbasetemp()
    return once.evidence(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)
