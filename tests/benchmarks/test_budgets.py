"""Every budget is kept. Not among the tests that run by default: ``python -m pytest tests/benchmarks``."""

from __future__ import annotations

import pytest
from run import NAMES, measured, table


@pytest.mark.parametrize("name", NAMES)
def test_budgets_are_kept(name: str) -> None:
    rows = measured(name)
    print(table(rows, markdown=False))
    missed = [row for row in rows if row.verdict == "missed"]
    assert not missed, table(missed, markdown=False)
    if all(row.value is None for row in rows):
        pytest.skip(rows[0].detail)
