"""The same agent for plain threads: synchronous, one thread for a run, nothing shared between runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.client import head_of, reported, request, settings
from pytest_agentguard.reference.closing import Lifeline
from pytest_agentguard.reference.conversation import Conversation, Ready
from pytest_agentguard.reference.retrying import Attempts
from pytest_agentguard.reference.supervisor import CANCEL
from pytest_agentguard.reference.tools import result_text
from pytest_agentguard.reference.turns import Result, Turn


class ThreadAgent(Conversation):
    """One run. It returns the model's answer, or raises an ``AgentError`` that says why there is none."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        self.lifeline = Lifeline()

    def run(self) -> str:
        """The whole run. Nothing interrupts a thread: it looks at its limits whenever something comes."""
        with httpx.Client(**settings(self.bounds)) as client:  # nothing is shared with another run
            for _ in range(self.bounds.rounds):
                turn = self.ask(client)
                self.permit(turn)
                if not turn.calls:
                    return turn.text
                self.tell(turn, self.perform(turn))
        raise errors.RoundsExhausted(f"no answer within rounds={self.bounds.rounds}")

    def cancel(self) -> None:
        """Stop the run, from another thread. It ends with ``RunCancelled`` as soon as it looks."""
        self.stop.stop(CANCEL)
        self.lifeline.cut()

    def ask(self, client: httpx.Client) -> Turn:
        """One turn of the model. Another request is made only where nothing of a reply had begun."""
        attempts = self.turn_attempts()
        while True:
            self.stop.look()
            attempts.begin()
            try:
                return self.exchange(client, attempts)
            except errors.AgentError as failure:
                wait = attempts.wait_after(failure)
            self.stop.sleep(wait)

    def exchange(self, client: httpx.Client, attempts: Attempts) -> Turn:
        """One request and its response."""
        intake = self.receiving()
        ends = moment(self.bounds.request_timeout)
        with reported(intake), self.explained(ends), self.lifeline.of_exchange() as extensions:
            asked = {**request(self, attempts), "timeout": self.timeout(ends), "extensions": extensions}
            with client.stream(**asked) as response:
                intake.begin(head_of(response))
                for chunk in response.iter_raw():
                    self.in_time(ends)
                    if intake.feed(chunk):
                        break  # closes the response; what the connection still holds is of no interest
            self.stop.look()  # a connection that was shut down may look like the end of a body
            return intake.end()

    def in_time(self, request_ends: float = math.inf) -> None:
        """Guard: whatever keeps coming, the exchange and the run end in time, and with a cancel."""
        self.stop.look()
        if time.monotonic() >= request_ends:
            raise errors.RequestTimeout(f"no reply within request_timeout={self.bounds.request_timeout} s")

    def timeout(self, request_ends: float) -> httpx.Timeout:
        """The longest silence: the idle timeout, or what is left of the exchange and of the run."""
        self.in_time(request_ends)
        return patience(self.bounds, min(self.stop.ends, request_ends))

    @contextmanager
    def explained(self, request_ends: float) -> Iterator[None]:
        """A silence up to the end of the exchange or of the run, or a cancel, is reported as that."""
        try:
            yield
        except httpx.TransportError as error:
            if isinstance(error, httpx.TimeoutException):
                self.in_time(request_ends)
            self.stop.look()
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


def moment(seconds: float | None) -> float:
    """The moment, on the monotonic clock, so many seconds from now."""
    return math.inf if seconds is None else time.monotonic() + seconds


def patience(bounds: Bounds, ends: float) -> httpx.Timeout:
    """The waits of one exchange that is over at ``ends``."""
    left = max(0.0, ends - time.monotonic())
    given: httpx.Timeout = settings(bounds)["timeout"]
    waits = {name: min(left, math.inf if limit is None else limit) for name, limit in given.as_dict().items()}
    return httpx.Timeout(**{name: None if limit == math.inf else limit for name, limit in waits.items()})
