"""Row 11: scenarios that wait cost a battery next to nothing, since their runs overlap."""

from __future__ import annotations

from collections.abc import Iterator

from batteries import battery
from measuring import Row

_TIMED = "stall or trickle or healthy-slow"
_AGENTS = ("reference", "reference-trio", "reference-threads")
_JOBS = 100


def rows() -> Iterator[Row]:
    """All timed scenarios of the shipped agents in one battery."""
    found = battery(*_AGENTS, only=_TIMED, options=("--agentguard-jobs", str(_JOBS)))
    together = sum(found.seconds.values())
    yield Row(
        number="11",
        what=f"{len(found.seconds)} timer-bound runs in one battery, start and imports apart (wall)",
        against="the sum of their times",
        budget=0.05,
        value=found.wall / together,
        detail=f"{found.wall:.1f} s, sum {together:.0f} s, longest {max(found.seconds.values()):.1f} s, "
        f"CPU {found.own + found.agents:.1f} s, at most {_JOBS} at a time",
    )
