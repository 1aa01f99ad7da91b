"""What the tests of the reference share: an endpoint with its ledger, jobs for it, and three ways to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import anyio

from pytest_agentguard import RECORD, Ledger, Limits, Reply
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.tool_spy import SpiedTool, build_tool
from pytest_agentguard.catalogue import dialects
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.threads import ThreadAgent

BOUND = 10.0  # seconds that any run of these tests may take
DIALECTS = ("openai-chat", "anthropic")
MODES = ("stream", "block")
WAYS = ("asyncio", "trio", "threads")
ANSWER = Reply().text("The answer is ", "final-91c2.")
FINAL = "The answer is final-91c2."
CALL = Reply().text("Let me record that.").call("record", x="{nonce}-evidence")


@dataclass
class Stage:
    """An endpoint that plays for one agent, and what the witnesses saw."""

    dialect: str
    mode: str
    endpoint: Endpoint
    ledger: Ledger
    tools: list[SpiedTool] = field(default_factory=list)

    def job(
        self, *specs: Any, prompt: str = "Record the value, then answer.", lane: str = "", **limits: Any
    ) -> Any:
        """A job for this endpoint, with spied tools (``record`` unless others are given)."""
        tools = [build_tool(spec, self.ledger, lane=lane) for spec in specs or (RECORD,)]
        self.tools += tools
        return SimpleNamespace(
            prompt=prompt,
            endpoint=self.endpoint.model_endpoint(self.dialect, lane),
            mode=self.mode,
            tools=tools,
            limits=Limits(**{"deadline": BOUND, **limits}),
        )

    @property
    def ran(self) -> list[dict[str, Any]]:
        """The arguments of every tool call that started, in order per tool."""
        return [call.arguments for tool in self.tools for call in tool.calls]

    @property
    def asked(self) -> int:
        """Requests that arrived."""
        return self.endpoint.requests.count


@contextmanager
def stage(dialect: str, mode: str, replies: Sequence[Reply], **options: Any) -> Iterator[Stage]:
    """An endpoint that plays ``replies``."""
    engine, ledger = Engine(), Ledger()
    try:
        with Endpoint(ledger, dialects(), engine=engine, **options) as endpoint:
            endpoint.play(*replies)
            yield Stage(dialect, mode, endpoint, ledger)
    finally:
        engine.stop()


def run(way: str, job: Any) -> str:
    """Run the reference in one of three ways."""
    return ThreadAgent(job).run() if way == "threads" else run_async(Agent(job).run, backend=way)


def run_async(function: Callable[..., Any], *arguments: Any, backend: str = "asyncio") -> str:
    """Run an async function on a back end."""
    answer: str = anyio.run(function, *arguments, backend=backend)
    return answer
