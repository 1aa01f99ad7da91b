"""The openai package: the tool loop that its documentation leads to, over Chat Completions."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pytest_agentguard import Adapter, Job, Limits, RunEnd, UsageError

_ATTEMPTS = 3  # the package tries again twice by default
_ROUNDS = 20


def _package() -> Any:
    try:
        import openai
    except ImportError as problem:
        raise UsageError('agent "openai" needs: pip install "pytest-agentguard[openai]"') from problem
    return openai


@cache
def _warm_client() -> Any:
    """One client for all jobs of a process; making one costs more than a whole run."""
    client = _package().OpenAI(base_url="http://127.0.0.1/v1", api_key="agentguard-dummy-key")
    assert client.chat.completions is not None  # its module is imported when first used
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
    """Ask, run what the model calls, send the results back, until it answers without a call."""
    client = _client(job)
    ask = _streamed if job.mode == "stream" else _whole
    tools = {tool.name: tool for tool in job.tools}
    messages: list[Any] = [{"role": "user", "content": job.prompt}]
    spent = 0
    for _ in range(job.limits.rounds or _ROUNDS):
        message = ask(client, _request(job, messages))
        calls = message.get("tool_calls") or []
        if not calls:
            return message["content"] or ""
        spent += len(calls)
        if job.limits.tool_calls is not None and spent > job.limits.tool_calls:
            return RunEnd(how="limited", error=f"tool calls={spent} allowed={job.limits.tool_calls}")
        messages.append(message)
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            result = tools[call["function"]["name"]].run(**arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
    return RunEnd(how="limited", error="the model asked for a tool in every round")


def _request(job: Job, messages: list[Any]) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
        }
        for t in job.tools
    ]
    return {"model": job.endpoint.model, "messages": messages, **({"tools": tools} if tools else {})}


def _whole(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    completion = client.chat.completions.create(**request)
    message: dict[str, Any] = completion.choices[0].message.model_dump(exclude_none=True)
    return {"content": None, **message}


def _streamed(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    text = ""
    calls: dict[int, Any] = {}
    for chunk in client.chat.completions.create(stream=True, **request):
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for piece in delta.tool_calls or []:
            if piece.index not in calls:
                calls[piece.index] = piece
            else:
                calls[piece.index].function.arguments += piece.function.arguments
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_call(call) for call in calls.values()]
    return message


def _call(call: Any) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": "function", "function": function}


ADAPTER = Adapter(
    name="openai",
    run=run,
    dialects=("openai-chat",),
    declared=Limits(attempts=_ATTEMPTS, rounds=_ROUNDS),
    prepare=prepare,
    distributions=("openai",),
)
