"""Signatures from JSON Schema and back, so that a tool spy looks like a function that somebody wrote."""

from __future__ import annotations

import functools
import inspect
import json
import keyword
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pytest_agentguard._core.contracts import ToolSpec
from pytest_agentguard._core.errors import UsageError

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_NAMES: Mapping[Any, str] = {kind: name for name, kind in _TYPES.items()}
_MISSING = inspect.Parameter.empty


def signature_of(spec: ToolSpec) -> inspect.Signature:
    """The signature that the schema describes: required parameters first, each with its type and default."""
    properties: Mapping[str, Any] = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", ())
    made = [_parameter(spec.name, name, schema, name in required) for name, schema in properties.items()]
    made.sort(key=lambda parameter: parameter.default is not _MISSING)
    return inspect.Signature(made, return_annotation=str)


def document(spec: ToolSpec) -> str:
    """A docstring: the description, then one line per parameter."""
    lines = [spec.description or f"{spec.name}."]
    properties = spec.parameters.get("properties", {})
    if properties:
        lines += ["", "Args:"]
        lines += [f"    {name}: {_about(schema)}" for name, schema in properties.items()]
    return "\n".join(lines)


def schema_of(signature: inspect.Signature, hints: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a function's parameters; what JSON has no word for may be anything."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    extra = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = True
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        schema = _schema(hints.get(parameter.name, Any))
        if parameter.default is _MISSING:
            required.append(parameter.name)
        elif parameter.default is not None and _fits(parameter.default):
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    if not extra:
        made["additionalProperties"] = False
    return made


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The resolved annotations of a function, or the raw ones where a name in them cannot be resolved."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # an annotation may run any code
        return dict(getattr(function, "__annotations__", {}))


def tool_spec(name: str, /, **types: Any) -> ToolSpec:
    """A tool from Python types: ``tool_spec("remove", path=str, dry_run=False)``; a value is a default."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter, given in types.items():
        if _is_type(given):
            properties[parameter] = _schema(given)
            required.append(parameter)
        else:
            if not _fits(given):
                raise UsageError(
                    f"tool {name!r}: parameter {parameter!r} has a default that JSON lacks: {given!r}"
                )
            properties[parameter] = {**_schema(type(given)), "default": given}
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(name=name, parameters=schema)


def _parameter(tool: str, name: str, schema: Mapping[str, Any], required: bool) -> inspect.Parameter:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"tool {tool!r}: parameter {name!r} is not a Python name")
    kind: Any = annotation_of(schema)
    default = _MISSING if required else schema.get("default")
    if default is None and kind is not Any:
        kind = kind | None
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)


def annotation_of(schema: Mapping[str, Any]) -> Any:
    """The Python type that a schema describes; ``Any`` where it says nothing that Python has a word for."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type")
    if isinstance(kind, list):
        members = [_TYPES[one] for one in kind if one in _TYPES]
        return functools.reduce(operator.or_, members) if members else Any
    if kind == "array" and "type" in schema.get("items", {}):
        return list[annotation_of(schema["items"])]  # type: ignore[misc]
    return _TYPES.get(str(kind), Any)


def _schema(kind: Any) -> dict[str, Any]:
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return {"enum": list(members)}
    if origin in (typing.Union, types.UnionType):
        schemas = [_schema(member) for member in members]
        if all(set(schema) == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}
    if origin is list and members:
        return {"type": "array", "items": _schema(members[0])}
    return {"type": _NAMES[origin]} if origin in _NAMES else {}


def _fits(value: Any) -> bool:
    """Whether JSON can hold it."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_type(given: Any) -> bool:
    return given is Any or given is None or isinstance(given, type) or typing.get_origin(given) is not None


def _about(schema: Mapping[str, Any]) -> str:
    text = schema.get("description") or schema.get("title")
    return str(text) if text else f"a value of type {schema.get('type', 'any')}"
