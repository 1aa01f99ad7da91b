"""The same agent for plain threads: synchronous, one thread for a run, nothing shared between runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.client import head_of, reported, request, settings
from pytest_agentguard.reference.conversation import Conversation, Ready
from pytest_agentguard.reference.tools import result_text
from pytest_agentguard.reference.turns import Result, Turn


class ThreadAgent(Conversation):
    """One run. It returns the model's answer, or raises an ``AgentError`` that says why there is none."""

    def run(self) -> str:
        """The whole run. Nothing interrupts a thread: its limits are looked at whenever something comes."""
        self._ends = _moment(self.bounds.deadline)
        with httpx.Client(**settings(self.bounds)) as client:  # nothing is shared with another run
            for _ in range(self.bounds.rounds):
                turn = self.ask(client)
                self.permit(turn)
                if not turn.calls:
                    return turn.text
                self.tell(turn, self.perform(turn))
        raise errors.RoundsExhausted(f"no answer within rounds={self.bounds.rounds}")

    def ask(self, client: httpx.Client) -> Turn:
        """One exchange with the model. It is never repeated: a second request is a decision of the caller."""
        intake = self.receiving()
        ends = _moment(self.bounds.request_timeout)
        with reported(intake), self._silence_explained(ends):
            timeout = self._timeout(ends)
            with client.stream(**request(self), timeout=timeout) as response:
                intake.begin(head_of(response))
                for chunk in response.iter_raw():
                    self.in_time(ends)
                    if intake.feed(chunk):
                        break  # closes the response; what the connection still holds is of no interest
            return intake.end()

    def in_time(self, request_ends: float = math.inf) -> None:
        """Guard: whatever keeps coming, the exchange and the run end in time."""
        now = time.monotonic()
        if now >= self._ends:
            raise errors.DeadlineReached(f"the run took too long: deadline={self.bounds.deadline} s")
        if now >= request_ends:
            raise errors.RequestTimeout(f"no reply within request_timeout={self.bounds.request_timeout} s")

    def _timeout(self, request_ends: float) -> httpx.Timeout:
        """The longest silence: the idle timeout, or what is left of the exchange and of the run."""
        self.in_time(request_ends)
        left = min(self._ends, request_ends) - time.monotonic()
        given: httpx.Timeout = settings(self.bounds)["timeout"]
        waits = {
            name: min(left, math.inf if limit is None else limit) for name, limit in given.as_dict().items()
        }
        return httpx.Timeout(**{name: None if limit == math.inf else limit for name, limit in waits.items()})

    @contextmanager
    def _silence_explained(self, request_ends: float) -> Iterator[None]:
        """A silence that lasted to the end of the exchange or of the run is reported as that."""
        try:
            yield
        except httpx.TimeoutException:
            self.in_time(request_ends)
            raise

    def perform(self, turn: Turn) -> list[Result]:
        """One result for every call of the turn, in order."""
        checked = self.check_all(turn)
        return [self.execute(call) if isinstance(call, Ready) else call for call in checked]

    def execute(self, ready: Ready) -> Result:
        """Run one call, once, unless the deadline has passed. What the tool raises is told to the model."""
        self.in_time()
        try:
            value = ready.tool.run(**ready.arguments)
        except Exception as error:
            return Result(
                ready.call, f"error: {errors.shown(f'{type(error).__name__}: {error}')}", failed=True
            )
        return Result(ready.call, result_text(value, self.bounds.output_bytes))


def _moment(seconds: float | None) -> float:
    return math.inf if seconds is None else time.monotonic() + seconds
