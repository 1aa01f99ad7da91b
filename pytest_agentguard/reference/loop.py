"""The agent, on asyncio and on trio: ask the model, run the tools that it calls, until it answers."""

from __future__ import annotations

from typing import Any

import anyio
import httpx

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.client import body_of, head_of, reported, request, settings
from pytest_agentguard.reference.conversation import Conversation, Ready
from pytest_agentguard.reference.retrying import Attempts
from pytest_agentguard.reference.tools import result_text
from pytest_agentguard.reference.turns import Result, Turn


class Agent(Conversation):
    """One run. It returns the model's answer, or raises an ``AgentError`` that says why there is none."""

    async def run(self) -> str:
        """The whole run, under its deadline. After a cancel, ``kept`` is the text that had come."""
        return await self.stop.run(self._rounds)

    async def _rounds(self) -> str:
        async with httpx.AsyncClient(**self.settings()) as client:  # nothing is shared with another run
            for _ in range(self.bounds.rounds):
                turn = await self.ask(client)
                self.permit(turn)
                if not turn.calls:
                    return turn.text
                self.tell(turn, await self.perform(turn))
        raise errors.RoundsExhausted(f"no answer within rounds={self.bounds.rounds}")

    def settings(self) -> dict[str, Any]:
        """Guard: how a client is made; it goes nowhere else than it is told."""
        return settings(self.bounds)

    async def ask(self, client: httpx.AsyncClient) -> Turn:
        """One turn of the model. Another request is made only where nothing of a reply had begun."""
        attempts = self.turn_attempts()
        while True:
            self.stop.permit()
            attempts.begin()
            try:
                return await self.exchange(client, attempts)
            except errors.AgentError as failure:
                wait = attempts.wait_after(failure)
            await self.pause(wait)

    async def pause(self, seconds: float) -> None:
        """Guard: a pause ends with the run."""
        await anyio.sleep(seconds)

    async def exchange(self, client: httpx.AsyncClient, attempts: Attempts) -> Turn:
        """One request and its response."""
        intake = self.receiving()
        with reported(intake):
            with anyio.move_on_after(self.bounds.request_timeout):
                async with client.stream(**request(self, attempts)) as response, body_of(response) as body:
                    intake.begin(head_of(response))
                    async for chunk in body:
                        if intake.feed(chunk):
                            break  # closes the response; what the connection still holds is of no interest
                return intake.end()
            raise errors.RequestTimeout(f"no reply within request_timeout={self.bounds.request_timeout} s")

    async def perform(self, turn: Turn) -> list[Result]:
        """One result for every call of the turn, in order."""
        checked = self.check_all(turn)
        return [await self.execute(call) if isinstance(call, Ready) else call for call in checked]

    async def execute(self, ready: Ready) -> Result:
        """Run one call, once. It has its own task: a tool can swallow the cancel of that, not of the run."""
        self.stop.permit()
        results: list[Result] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._execute, ready, results)
        return results[0]

    async def _execute(self, ready: Ready, results: list[Result]) -> None:
        """What the tool raises is told to the model."""
        try:
            value: Any = await ready.tool.arun(**ready.arguments)
        except Exception as error:
            told = errors.shown(f"{type(error).__name__}: {error}")
            results.append(Result(ready.call, f"error: {told}", failed=True))
        else:
            results.append(Result(ready.call, result_text(value, self.bounds.output_bytes)))
