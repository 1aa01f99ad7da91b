"""The cut sweep, part of row 17: a thousand offsets and more, in every dialect."""

from __future__ import annotations

from collections.abc import Iterator

from batteries import battery
from measuring import Row

from pytest_agentguard import Reply, Setup, catalogue
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._core.planning import Setting, plan

_SWEEP = "cut-after-every-byte"


def rows() -> Iterator[Row]:
    """One sweep per dialect; the busier of the two processes is what it takes on two free cores."""
    for dialect in catalogue.dialects():
        offsets = _offsets(dialect)
        found = battery("reference", only=f"{_SWEEP} and stream", options=("--agentguard-dialect", dialect))
        yield Row(
            number="17",
            what=f"cut sweep, {dialect}, {offsets} offsets: CPU of the busier side, pytest or agent",
            against="–",
            budget=5.0,
            value=max(found.own, found.agents),
            unit="s",
            detail=f"pytest {found.own:.1f} s, agent {found.agents:.1f} s with its import, "
            f"wall {found.wall:.1f} s",
        )


def _offsets(dialect: str) -> int:
    def measure(reply: Reply) -> Plan:
        return plan(reply, Setting(catalogue.dialects()[dialect], "stream", CountedIds("count")))

    lanes = catalogue.scenarios()[_SWEEP].lanes
    assert lanes is not None
    chosen = catalogue.dialects()[dialect]
    return len(lanes(Setup(dialect=chosen, mode="stream", final="f", strict=False, measure=measure)))
