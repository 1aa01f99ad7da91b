"""A run of an agent inside a test: how its end is told from what leaves the block."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from pytest_agentguard._core import limits

UNSAID = (
    "agentguard.run() was left without an exception and without run.answer(text): say what the agent "
    "returned, run.answer('') for nothing; where it has to raise: "
    "with pytest.raises(Error), agentguard.run(), in this order"
)
"""Nobody knows how such a run ended: an exception may have been caught inside the block."""


@dataclass(slots=True)
class Run:
    """One run of an agent inside a test."""

    answered: str | None = None

    def answer(self, text: str) -> None:
        """Say what the agent returned: its claim of success."""
        self.answered = text


def ended_by(error: BaseException) -> dict[str, Any]:
    """The fields of ``RunEnded`` for a run that ``error`` left."""
    text = str(error)
    shown = limits.TEXT_SHOWN
    return {
        "how": "cancelled" if isinstance(error, _cancellations()) else "raised",
        "error": text if len(text) <= shown else f"{text[:shown]}… ({len(text)} characters)",
        "error_type": _qualified(error),
        "error_chain": tuple(_qualified(link) for link in _chain(error)),
    }


def _cancellations() -> tuple[type[BaseException], ...]:
    names = (("asyncio", "CancelledError"), ("trio", "Cancelled"))
    loaded = [getattr(sys.modules[module], name) for module, name in names if module in sys.modules]
    return (KeyboardInterrupt, *loaded)


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and its causes, outermost first."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and not any(link is known for known in chain):
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _qualified(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"
