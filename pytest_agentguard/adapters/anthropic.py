"""The anthropic package: the tool loop that its documentation leads to, over Messages."""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_agentguard import Adapter, Job, Limits, RunEnd, UsageError

_ATTEMPTS = 3  # the package tries again twice by default
_ROUNDS = 20


def _package() -> Any:
    try:
        import anthropic
    except ImportError as problem:
        raise UsageError('agent "anthropic" needs: pip install "pytest-agentguard[anthropic]"') from problem
    return anthropic


@cache
def _warm_client() -> Any:
    """One client for all jobs of a process; making one costs more than a whole run."""
    client = _package().Anthropic(base_url="http://127.0.0.1", api_key="agentguard-dummy-key")
    assert client.messages is not None  # its module is imported when first used
    return client


def prepare() -> None:
    """Import the package and make the client."""
    _warm_client()


def _client(job: Job) -> Any:
    options: dict[str, Any] = {"base_url": job.endpoint.base_url, "api_key": job.endpoint.api_key}
    waits = [wait for wait in (job.limits.idle_timeout, job.limits.request_timeout) if wait is not None]
    if waits:
        options["timeout"] = min(waits)  # of one silence; the package has no limit on a whole exchange
    if job.limits.attempts is not None:
        options["max_retries"] = job.limits.attempts - 1
    return _warm_client().with_options(**options)


def run(job: Job) -> str | RunEnd:
    """Ask, run what the model calls, send the results back, until it stops for another reason."""
    client = _client(job)
    ask = _streamed if job.mode == "stream" else _whole
    tools = {tool.name: tool for tool in job.tools}
    messages: list[Any] = [{"role": "user", "content": job.prompt}]
    spent = 0
    for _ in range(job.limits.rounds or _ROUNDS):
        message = ask(client, _request(job, messages))
        if message.stop_reason != "tool_use":
            return "".join(block.text for block in message.content if block.type == "text")
        calls = [block for block in message.content if block.type == "tool_use"]
        spent += len(calls)
        if job.limits.tool_calls is not None and spent > job.limits.tool_calls:
            return RunEnd(how="limited", error=f"tool calls={spent} allowed={job.limits.tool_calls}")
        results = []
        for call in calls:
            result = tools[call.name].run(**call.input)
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": str(result)})
        messages += [
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": results},
        ]
    return RunEnd(how="limited", error="the model asked for a tool in every round")


def _request(job: Job, messages: list[Any]) -> dict[str, Any]:
    tools = [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in job.tools]
    request = {"model": job.endpoint.model, "max_tokens": 1024, "messages": messages}
    return {**request, "tools": tools} if tools else request


def _whole(client: Any, request: dict[str, Any]) -> Any:
    return client.messages.create(**request)


def _streamed(client: Any, request: dict[str, Any]) -> Any:
    with client.messages.stream(**request) as stream:
        return stream.get_final_message()


ADAPTER = Adapter(
    name="anthropic",
    run=run,
    dialects=("anthropic",),
    declared=Limits(attempts=_ATTEMPTS, rounds=_ROUNDS),
    prepare=prepare,
    distributions=("anthropic",),
)
