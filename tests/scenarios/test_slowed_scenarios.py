"""A scenario at a pace can be played slowly: what takes time takes more of it, in lanes and tools, too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_agentguard import Lane, Setup, catalogue
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import Hold, Pause
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._runner.execution import Way, _hold_limit, _patient

SCENARIO = catalogue.scenarios()["tool-blocks-beside-others"]


def times(lanes: Sequence[Lane]) -> list[float]:
    """Every pause and every limit of a hold, in order."""
    found = []
    for _, move in (place for lane in lanes for reply in lane.replies for place in reply.moves):
        found += [move.seconds] if isinstance(move, Pause) else [move.limit] if isinstance(move, Hold) else []
    return found


def test_lanes_and_tools_take_their_time_as_well() -> None:
    dialect = catalogue.dialect("openai-chat")
    setting = Setting(dialect=dialect, mode="stream", ids=CountedIds("0"))
    setup = Setup(
        dialect=dialect, mode="stream", final="f", strict=False, measure=lambda reply: plan(reply, setting)
    )
    slow = _patient(SCENARIO, 3)

    assert SCENARIO.lanes is not None
    assert slow.lanes is not None
    assert times(slow.lanes(setup)) == pytest.approx(
        [3 * seconds for seconds in times(SCENARIO.lanes(setup))]
    )
    assert [tool.behaviour.limit for tool in slow.tools] == [3.0]
    assert slow.watch == 3 * SCENARIO.watch


def test_holds_keep_their_limits_where_nothing_is_declared_to_end_them() -> None:
    assert _hold_limit(_patient(SCENARIO, 3), Way(patience=3)) is None
