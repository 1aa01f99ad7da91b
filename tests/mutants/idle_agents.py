"""Agents that do nothing; each of them must pass zero scenarios."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pytest_agentguard import Adapter

_FOR_EVER = 3600.0


def _returns(asked: Any) -> str:
    return "ok"


def _raises(asked: Any) -> str:
    raise RuntimeError("not today")


def _sleeps(asked: Any) -> str:
    time.sleep(_FOR_EVER)
    return "ok"


def _deaf(job: Any) -> None:
    """Takes a cancel for nothing."""


def _idle(name: str, does: Callable[[Any], str]) -> Adapter:
    """An agent that does this with every job, and with every input of its fetch tool."""
    return Adapter(name=name, run=does, cancel=_deaf, fetch=lambda job: does, surfaces=("chat", "fetch"))


returns_at_once = _idle("returns_at_once", _returns)
"""Claims success without a request."""

raises_at_once = _idle("raises_at_once", _raises)
"""Fails loudly, whatever it is asked."""

sleeps_for_ever = _idle("sleeps_for_ever", _sleeps)
"""Never comes back; the hard deadline of the control ends it."""
