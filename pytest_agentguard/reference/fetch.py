"""A tool that fetches, on asyncio and on trio: what is on its list, within its budget, until it is stopped.

It stands on ``budget``, ``retrying``, ``supervisor`` and ``effects``; ``fetch_threads`` is it for threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.budget import AttemptBudget
from pytest_agentguard.reference.client import body_of, head_of, settings, translated
from pytest_agentguard.reference.effects import Effect, EffectLedger, Sent
from pytest_agentguard.reference.intake import Head
from pytest_agentguard.reference.retrying import Attempts
from pytest_agentguard.reference.supervisor import Supervisor


class Fetched:
    """One response on its way in, and what it must be to be a result."""

    def __init__(self, bounds: Bounds, effects: EffectLedger, sent: Sent) -> None:
        self.bounds, self.effects, self.sent = bounds, effects, sent
        self.head = Head(0)
        self.received = 0  # bytes
        self._body = bytearray()

    def begin(self, head: Head) -> None:
        """The head has come; only of a success the body is read."""
        self.head = head
        self.effects.answered(self.sent, head.status)
        self.stays_here()
        if not 200 <= head.status < 300:
            raise errors.FetchFailed(f"the server refused or failed: status={head.status}")
        if head.encoding not in ("", "identity"):
            raise errors.FetchFailed(f"the body is packed: encoding={errors.shown(head.encoding)}")

    def stays_here(self) -> None:
        """Guard: a redirect is the end. Nobody allowed the place that it points to."""
        if 300 <= self.head.status < 400:
            place = errors.shown(self.head.location)
            raise errors.RedirectRefused(f"not followed: status={self.head.status} location={place}")

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.received += len(chunk)
        self.bounded()
        self._body += chunk

    def bounded(self) -> None:
        """Guard: a body has a size beyond which it is not read."""
        if self.received > self.bounds.output_bytes:
            raise errors.ResponseTooLarge(f"the body is larger than limit={self.bounds.output_bytes} bytes")

    def text(self) -> str:
        """The whole body."""
        return self._body.decode("utf-8", "replace")

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Every error says what is known of the request."""
        try:
            with translated(self):
                yield
        except errors.AgentError as error:
            if isinstance(error, errors.Unreachable):
                self.effects.not_sent(self.sent)
            error.status, error.retry_after = self.head.status, self.head.retry_after
            if self.sent.effect is Effect.UNKNOWN:
                error.effect = f"effect=unknown request={self.sent.what}"
            raise


class Fetching:
    """What a fetch tool decides; nothing here does I/O. Each guard is one method.

    ``job`` has ``allowed`` (ids and their URLs), ``limits``, ``token``, ``method`` and ``body``. The limits
    are those of the tool, for all its calls and all its workers together.
    """

    attempts = Attempts
    fetched = Fetched
    supervisor = Supervisor

    def __init__(self, job: Any) -> None:
        self.job = job
        self.bounds = self.bounds_of(job.limits)
        self.stop = self.supervisor(self.bounds.deadline)
        self.budget = self.budget_of(job.limits)
        self.effects = EffectLedger()

    def bounds_of(self, limits: Any) -> Bounds:
        """Guard: every wait and every body has a limit, declared or not."""
        return Bounds.declared(limits)

    def budget_of(self, limits: Any) -> AttemptBudget:
        """Guard: one budget for everything that the tool does."""
        declared = getattr(limits, "attempts", None)
        return AttemptBudget(self.bounds.fetches if declared is None else declared)

    def url_of(self, id: Any) -> str:
        """Guard: an id is on the list, letter by letter; nothing is decoded, completed or taken for a URL."""
        if not isinstance(id, str) or id not in self.job.allowed:
            known = ", ".join(sorted(self.job.allowed))
            raise errors.NotAllowed(f"not on the list: {errors.shown(str(id))}; allowed: {known}")
        url: str = self.job.allowed[id]
        return url

    def call_attempts(self) -> Attempts:
        """The attempts of one call, out of the budget of all."""
        return self.attempts(self.budget, most=self.bounds.fetch_attempts, ends=self.stop.ends)

    def begin(self, id: str, attempts: Attempts) -> Fetched:
        """Guard: an attempt is counted and written down before it is made."""
        self.permit()
        attempts.begin()
        sent = self.effects.sending(f"{id} attempt={attempts.made} key={attempts.key()}")
        return self.fetched(self.bounds, self.effects, sent)

    def permit(self) -> None:
        """Guard: nothing starts after a stop."""
        self.stop.permit()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Guard: whoever is stopped, or refused after a stop, hears which requests nobody has answered."""
        try:
            yield
        except (errors.RunStopped, errors.DeadlineReached) as stop:
            if unknown := self.effects.unknown():
                stop.effect = f"effect=unknown requests={', '.join(unknown)}"
            raise

    def settings(self) -> dict[str, Any]:
        """How a client is made: no redirects, and neither proxies nor passwords of the environment."""
        return {**settings(self.bounds), "trust_env": False}

    def request(self, url: str, attempts: Attempts) -> dict[str, Any]:
        """The request, as arguments of ``client.stream``. The token goes to the URLs of the list alone."""
        headers = {
            "Authorization": f"Bearer {self.job.token}",
            "Accept-Encoding": "identity",  # what is not packed cannot unpack to more than was read
            **attempts.headers(),
        }
        content = self.job.body.encode() if self.job.body else None
        return {"method": self.job.method, "url": url, "headers": headers, "content": content}

    def too_slow(self) -> errors.RequestTimeout:
        """The error for an exchange that took too long in all."""
        return errors.RequestTimeout(f"no answer within request_timeout={self.bounds.request_timeout} s")


class FetchTool(Fetching):
    """``await tool(id)`` gives the text of an allowed id, or raises an ``AgentError`` that says why not.

    A cancel of one call stops the tool: no later call makes a request.
    """

    async def __call__(self, id: str) -> str:
        """One call, with its attempts."""
        url = self.url_of(id)
        with self.told():
            return await self.stop.run(self._call, id, url)

    async def _call(self, id: str, url: str) -> str:
        attempts = self.call_attempts()
        while True:
            await anyio.lowlevel.checkpoint()  # a cancel that is due comes before the request
            fetched = self.begin(id, attempts)
            try:
                return await self.exchange(fetched, self.request(url, attempts))
            except errors.AgentError as failure:
                wait = attempts.wait_after(failure)
            await self.pause(wait)

    async def pause(self, seconds: float) -> None:
        """Guard: a pause ends with the tool."""
        await anyio.sleep(seconds)

    async def exchange(self, fetched: Fetched, request: dict[str, Any]) -> str:
        """One request and its response, on a connection of its own."""
        with fetched.reported():
            with anyio.move_on_after(self.bounds.request_timeout):
                async with (
                    httpx.AsyncClient(**self.settings()) as client,
                    client.stream(**request) as response,
                    body_of(response) as body,
                ):
                    fetched.begin(head_of(response))
                    async for chunk in body:
                        fetched.feed(chunk)
                return fetched.text()
            raise self.too_slow()
