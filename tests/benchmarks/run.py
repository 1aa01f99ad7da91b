"""Measures every budget and prints the table: ``python tests/benchmarks/run.py [NAME…]``.

Each benchmark runs in a process of its own, one after the other. ``--markdown`` prints the table of the
documentation, ``--rows NAME`` the rows of one benchmark as JSON, from this very process.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from measuring import Row

NAMES = (
    "startup",
    "unused",
    "model_test",
    "requests_kept_alive",
    "streaming",
    "battery_time",
    "warm_runs",
    "ledger_time",
    "memory",
    "growth",
    "sweeps",
    "cancels",
)
SECONDS = 240.0  # how long one benchmark may take


def measured_here(name: str) -> list[Row]:
    """The rows of one benchmark, measured in this process."""
    return list(importlib.import_module(f"bench_{name}").rows())


def measured(name: str) -> list[Row]:
    """The rows of one benchmark, measured in a process of its own."""
    command = [sys.executable, __file__, "--rows", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"benchmark {name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return [Row(**fields) for fields in json.loads(done.stdout.splitlines()[-1])]


def shown(row: Row) -> tuple[str, str, str, str, str, str]:
    """A row as text."""
    sign = "≥" if row.at_least else "≤"
    value = "–" if row.value is None else f"{_number(row.value)} {row.unit}"
    against = f"{row.against} ({row.detail})" if row.detail else row.against
    return row.number, row.what, against, f"{sign} {_number(row.budget)} {row.unit}", value, row.verdict


def table(rows: Sequence[Row], *, markdown: bool) -> str:
    """All rows, one line each."""
    heads = ("#", "what", "against", "budget", "measured", "verdict")
    lines = [heads, *map(shown, rows)]
    if markdown:
        lines.insert(1, ("---",) * len(heads))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join(
        f"{n:>4}  {verdict:<12}  {value:>12}  (budget {budget})\n      {what}; against {against}"
        for n, what, against, budget, value, verdict in lines[1:]
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def main(arguments: Sequence[str]) -> int:
    """Run the program; its status is the number of missed budgets."""
    if arguments[:1] == ["--rows"]:
        print(json.dumps([dataclasses.asdict(row) for row in measured_here(arguments[1])]))
        return 0
    markdown = "--markdown" in arguments
    wanted = [name for name in arguments if not name.startswith("-")]
    unknown = set(wanted) - set(NAMES)
    if unknown:
        print(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        return 64
    rows: list[Row] = []
    for name in wanted or NAMES:
        found = measured(name)
        rows += found
        if not markdown:
            print(table(found, markdown=False), end="\n\n", flush=True)
    rows.sort(key=lambda row: int(row.number.rstrip("abcdef")))
    if markdown:
        print(table(rows, markdown=True))
    return sum(row.verdict == "missed" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
