"""What every fact has: a witness, a lane, a place in the order, a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Witness(StrEnum):
    """Who saw it. Each stands at a boundary that the agent cannot fake."""

    ENDPOINT = "endpoint"
    TOOL_SPY = "tool-spy"
    RUNNER = "runner"
    COUNTING_SERVER = "counting-server"
    STUB = "stub"
    SESSION_STORE = "session-store"
    AGENT = "agent"  # what the agent says about itself: a claim, never evidence
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact. ``lane`` separates agents that run side by side in one run."""

    witness: Witness
    lane: str = ""
    seq: int = field(default=0, compare=False)
    t: float = field(default=0.0, compare=False)
