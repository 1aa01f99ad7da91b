"""Tool calls on their way to a tool: strict arguments, judged by the schema, and results with a bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema

from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.errors import BrokenArguments, InvalidArguments, shown
from pytest_agentguard.reference.strict_json import NotJson, depth, parse


def arguments_of(text: str, bounds: Bounds, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an object. Raises ``BrokenArguments``; nothing is repaired, defaulted or guessed."""
    if len(text) > bounds.arguments_bytes:
        raise BrokenArguments(f"the arguments are longer than limit={bounds.arguments_bytes}")
    if not text.strip() and not parameters.get("properties"):
        return {}  # some servers send nothing where there is nothing to send
    try:
        arguments = parse(text)
    except NotJson as error:
        raise BrokenArguments(f"the arguments are not JSON: {error}; arguments={shown(text)}") from None
    if not isinstance(arguments, dict):
        raise BrokenArguments(f"the arguments are not a JSON object: arguments={shown(text)}")
    if depth(arguments) > bounds.arguments_depth:
        raise BrokenArguments(f"the arguments are nested deeper than limit={bounds.arguments_depth}")
    return arguments


def validate(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Raises ``InvalidArguments`` where the schema does not allow them; unknown members are not allowed."""
    validator = jsonschema.Draft202012Validator(parameters)
    for error in validator.iter_errors(arguments):
        where = error.json_path.removeprefix("$").removeprefix(".") or "arguments"
        raise InvalidArguments(f"{where}: {shown(error.message)}")
    open_ended = "additionalProperties" in parameters or "patternProperties" in parameters
    unknown = sorted(set(arguments) - set(parameters.get("properties", {})))
    if unknown and not open_ended:
        raise InvalidArguments(f"unknown members: {shown(', '.join(unknown))}")


def result_text(value: Any, limit: int) -> str:
    """What a tool returned, as text of at most ``limit`` bytes; a cut is visible and tears no character."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return f"{data[:limit].decode('utf-8', 'ignore')}\n[cut: {limit} of {len(data)} bytes]"
