"""Rows 2 and 4: what can be counted exactly is counted by the tests of the plugin; here they are run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from measuring import Row, python

_TESTS = Path(__file__).parents[1] / "plugin" / "test_costs.py"
_COUNTED = {
    "2": ("modules loaded when unused, besides our entry modules", "unused_plugin_loads_its_entry"),
    "4": ("autouse fixtures, and hooks per test when unused", "no_hook_for_single_tests"),
}


def rows() -> Iterator[Row]:
    """One row per count; the test holds where it is zero."""
    for number, (what, test) in _COUNTED.items():
        command = python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(_TESTS), "-k", test)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        counted = 0.0 if done.returncode == 0 else 1.0
        yield Row(
            number=number,
            what=what,
            against="bare pytest",
            budget=0.0,
            value=counted,
            unit="more",
            detail="tests/plugin/test_costs.py" if not counted else done.stdout[-500:],
        )
