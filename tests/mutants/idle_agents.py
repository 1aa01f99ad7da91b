"""Agents that do nothing; each of them must pass zero scenarios."""

from __future__ import annotations

import time
from typing import Any

_FOR_EVER = 3600.0


def returns_at_once(job: Any) -> str:
    """Claims success without a request."""
    return "ok"


def raises_at_once(job: Any) -> str:
    """Fails loudly, whatever it is asked."""
    raise RuntimeError("not today")


def sleeps_for_ever(job: Any) -> str:
    """Never comes back; the hard deadline of the control ends it."""
    time.sleep(_FOR_EVER)
    return "ok"
