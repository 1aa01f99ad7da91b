"""The effect ledger: what was sent and what is known of it. Without an answer that is nothing: unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What is known of one request."""

    NOT_SENT = "not sent"  # there was no connection
    UNKNOWN = "unknown"  # it may have arrived, and what it asks for may have been done, or be done later
    ANSWERED = "answered"


AFTER: Mapping[Effect, frozenset[Effect]] = {
    Effect.UNKNOWN: frozenset({Effect.NOT_SENT, Effect.ANSWERED}),
    Effect.NOT_SENT: frozenset(),
    Effect.ANSWERED: frozenset(),  # no way back: neither a cut nor a cancel takes an answer away
}
"""What may still become of it. A request whose caller was cancelled stays where it is: unknown."""


@dataclass(slots=True)
class Sent:
    """One request. ``what`` names it for people."""

    what: str
    effect: Effect = Effect.UNKNOWN
    status: int = 0

    def __str__(self) -> str:
        answer = f" status={self.status}" if self.status else ""
        return f"{self.what}: {self.effect}{answer}"


class EffectLedger:
    """Every request of one tool, in order."""

    def __init__(self) -> None:
        self.entries: list[Sent] = []

    def sending(self, what: str) -> Sent:
        """Guard: written before the request is made; from here on nobody can say that it did not happen."""
        sent = Sent(what)
        self.entries.append(sent)
        return sent

    def answered(self, sent: Sent, status: int) -> None:
        """The head of a response has come."""
        self._become(sent, Effect.ANSWERED)
        sent.status = status

    def not_sent(self, sent: Sent) -> None:
        """There was no connection that it could have gone through."""
        self._become(sent, Effect.NOT_SENT)

    def unknown(self) -> tuple[str, ...]:
        """Guard: what was sent and not answered, by name."""
        return tuple(sent.what for sent in self.entries if sent.effect is Effect.UNKNOWN)

    def report(self) -> str:
        """One line for each request."""
        return "\n".join(map(str, self.entries))

    def _become(self, sent: Sent, effect: Effect) -> None:
        if effect not in AFTER[sent.effect]:
            legal = ", ".join(sorted(AFTER[sent.effect])) or "nothing"
            raise ValueError(f"{effect} in state={sent.effect}; legal: {legal}")
        sent.effect = effect
