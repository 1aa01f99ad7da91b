"""Small agents of somebody else, on the standard library alone; suites that judge them have a copy."""

from __future__ import annotations

import http.client
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

number = 3


def quick(job: Any) -> str:
    """Does nothing and says that it is done."""
    return "ok"


def broken(job: Any) -> str:
    """Raises at once."""
    raise RuntimeError("no model today")


def asleep(job: Any) -> str:
    """Never comes back."""
    while True:
        time.sleep(60)


def careful(job: Any) -> str:
    """Speaks openai-chat with streaming only, and refuses a turn whose finish reason never came."""
    return converse(job, is_careful=True)


def careless(job: Any) -> str:
    """The same without the refusal: what it has of a call, it mends and runs."""
    return converse(job, is_careful=False)


async def careful_async(job: Any) -> str:
    """The careful one as a coroutine."""
    return converse(job, is_careful=True)


def noisy(job: Any) -> str:
    """The careful one, which writes whatever it likes to both of its outputs."""
    sys.stdout.buffer.write(b"\xff\xfe\x00 \x1b[31m not text \r\n" * 100)
    sys.stdout.flush()
    print("agentguard: held 999 \ud800", file=sys.stderr)
    return careful(job)


def converse(job: Any, *, is_careful: bool) -> str:
    """Turns of the model until it answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": job.prompt}]
    tools = {tool.name: tool for tool in job.tools}
    for _ in range(8):
        text, calls, is_finished = one_turn(job, messages)
        if is_careful and not is_finished:
            raise ConnectionError("the reply ended before its finish reason")
        if not calls:
            return text
        asked = [{"id": c["id"], "type": "function", "function": c["function"]} for c in calls]
        messages.append({"role": "assistant", "content": text or None, "tool_calls": asked})
        for call in calls:
            arguments = whole(call["function"]["arguments"], is_careful)
            result = tools[call["function"]["name"]].run(**arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
    raise RuntimeError("too many turns")


def one_turn(job: Any, messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]], bool]:
    """Text, calls, and whether a finish reason came."""
    url = urlsplit(job.endpoint.base_url)
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in job.tools
    ]
    body = {
        "model": job.endpoint.model,
        "messages": messages,
        "stream": True,
        "tools": [{"type": "function", "function": function} for function in functions],
    }
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=10)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {job.endpoint.api_key}"}
    try:
        connection.request("POST", f"{url.path}/chat/completions", json.dumps(body), headers)
        return gathered(connection.getresponse())
    finally:
        connection.close()


def gathered(lines: Any) -> tuple[str, list[dict[str, Any]], bool]:
    """What the events of one reply add up to."""
    text, calls, is_finished = "", {}, False
    for line in lines:
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices", ()):
            delta = choice.get("delta", {})
            text += delta.get("content") or ""
            is_finished = is_finished or bool(choice.get("finish_reason"))
            for piece in delta.get("tool_calls", ()):
                call = calls.setdefault(piece["index"], {"id": "", "function": {"name": "", "arguments": ""}})
                call["id"] += piece.get("id") or ""
                function = piece.get("function", {})
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
    return text, list(calls.values()), is_finished


def whole(text: str, is_careful: bool) -> Any:
    """The arguments; the careless one closes what is open."""
    try:
        return json.loads(text)
    except ValueError:
        if is_careful:
            raise
        return json.loads(text + '"}')
