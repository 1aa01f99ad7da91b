"""The attempt budget: how many requests may be made, counted before they are made, whoever makes them."""

from __future__ import annotations

import threading

from pytest_agentguard.reference.errors import BudgetExhausted


class AttemptBudget:
    """Attempts that workers on any loop and in any thread take from one place.

    An attempt is taken before its request is made and never given back: a request that failed, timed out or
    was cancelled may have arrived all the same.
    """

    def __init__(self, attempts: int) -> None:
        if attempts < 0:
            raise ValueError(f"attempts={attempts} is less than 0")
        self.attempts = attempts
        self.spent = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Attempts that are left."""
        return self.attempts - self.spent

    def reserve(self) -> int:
        """Guard: take one attempt, or raise ``BudgetExhausted``; looking and taking are one step."""
        with self._lock:
            if self.spent >= self.attempts:
                raise BudgetExhausted(f"no attempt is left: spent={self.spent} allowed={self.attempts}")
            self.spent += 1
            return self.spent
