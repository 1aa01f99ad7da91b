"""What the scenarios about stopping share: the rules of a cancel, and tools that take their time."""

from __future__ import annotations

from pytest_agentguard import RECORD, Behaviour, ToolSpec

AFTER_CANCEL = (
    "cancel-stays-cancelled",
    "no-call-after-stop",
    "timeout-is-not-cancel",
    "nothing-left-behind",
)
"""What holds wherever a run is cancelled."""

LATE = 1.5
"""How long a run is watched, s, where a tool that was left alone has its effect after one second."""


def slow_tool(name: str = "record", *, does: str = "hold", limit: float = 1.0) -> ToolSpec:
    """The standard tool under any name; it takes ``limit`` seconds unless it is cancelled."""
    return ToolSpec(
        name=name,
        description="Record a value.",
        parameters=RECORD.parameters,
        behaviour=Behaviour(does=does, limit=limit),
    )
