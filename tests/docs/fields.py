"""Tables of the fields of public dataclasses, and of what the objects of fixtures can do."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest_agentguard
from pytest_agentguard._plugin.fixtures import AgentGuard
from pytest_agentguard._plugin.in_process import BatteryReport
from pytest_agentguard._plugin.runs import Run
from pytest_agentguard._plugin.tool_spies import ToolSpies
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.script import Played

OBJECTS: Mapping[str, tuple[type, tuple[str, ...]]] = {
    "The fixture `agentguard`": (AgentGuard, ("check", "story", "run", "run_battery")),
    "What `agentguard.run()` gives": (Run, ("answer",)),
    "What `agentguard.run_battery()` gives": (BatteryReport, ("checks", "totals", "not_covered")),
    "The fixture `sse_endpoint`": (
        Endpoint,
        (
            "play",
            "base_url",
            "root_url",
            "model_endpoint",
            "env",
            "requests",
            "release",
            "unplayed",
            "problems",
        ),
    ),
    "What `sse_endpoint.play()` gives": (Played, ("release",)),
    "The fixture `tool_spy`": (ToolSpies, ("__call__", "record", "purge", "shell", "remove")),
}
"""What tests hold in their hands without importing it, and what of it is public."""

_COMMENT = re.compile(r"  # (.+)$")
_NAME = re.compile(r"(?<![\w'.])([A-Z_]\w*)(?:\.\w+)*")


def tables(module_name: str, names: list[str], cell: Callable[[str], str]) -> Iterator[str]:
    """A heading and a table for each dataclass of a module that has fields which a user gives or reads."""
    module = importlib.import_module(module_name)
    for name in names:
        found = getattr(module, name)
        if isinstance(found, type) and dataclasses.is_dataclass(found) and name != "Reply":
            yield from ("", f"### Fields of `{name}`", "")
            more = (inspect.getdoc(found) or "").partition("\n\n")[2]
            yield from ([cell(part) for part in more.split("\n\n")] if more else [])
            yield from ([""] * bool(more))
            yield from rows(_node(found), inspect.getsource(module).splitlines(), cell, vars(module))


def rows(
    node: ast.ClassDef, source: list[str], cell: Callable[[str], str], names: Mapping[str, Any]
) -> Iterator[str]:
    """The table of the fields of a class; a comment in the source says what one means."""
    fields = [entry for entry in node.body if isinstance(entry, ast.AnnAssign)]
    if fields:
        yield from ("| field | type | default | meaning |", "|---|---|---|---|")
    for entry in fields:
        lines = source[entry.lineno - 1 : entry.end_lineno]
        comment = next((found[1] for line in lines if (found := _COMMENT.search(line))), "")
        default = f"`{cell(_default(entry.value, names))}`" if entry.value is not None else ""
        kind = cell(ast.unparse(entry.annotation))
        yield f"| `{ast.unparse(entry.target)}` | `{kind}` | {default} | {cell(comment)} |"


def objects(
    signature: Callable[[Any], str], first: Callable[[Any], str], cell: Callable[[str], str]
) -> list[str]:
    """The methods and properties of what the fixtures give."""
    lines: list[str] = []
    for title, (found, names) in OBJECTS.items():
        lines += ["", f"### {title}", "", cell(first(found)), "", "| name | what it is |", "|---|---|"]
        for name in names:
            member = inspect.getattr_static(found, name)
            if isinstance(member, property):
                lines.append(f"| `{name}` | {cell(first(member))} |")
            else:
                shown = "tool_spy" if name == "__call__" else name
                text = " ".join((inspect.getdoc(member) or "").split())
                lines.append(f"| `{shown}{cell(signature(inspect.unwrap(member)))}` | {cell(text)} |")
    return lines


def _default(value: ast.expr, names: Mapping[str, Any]) -> str:
    """A default as a user would write it: names that are private are replaced by what they stand for."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        made = next(keyword.value for keyword in value.keywords if keyword.arg == "default_factory")
        if isinstance(made, ast.Lambda):
            return ast.unparse(made.body)
        return {"dict": "{}", "list": "[]"}.get(ast.unparse(made), f"{ast.unparse(made)}()")
    return _NAME.sub(lambda found: _shown(found[0], found[1], names), ast.unparse(value))


def _shown(text: str, root: str, names: Mapping[str, Any]) -> str:
    is_plain = root in pytest_agentguard._HOME or root not in names
    return text if is_plain else _short(eval(text, dict(names)))


def _short(value: Any) -> str:
    if dataclasses.is_dataclass(value) and value == type(value)():
        return f"{type(value).__name__}()"
    return repr(value)


def _node(found: type) -> ast.ClassDef:
    module = inspect.getmodule(found)
    assert module is not None
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ClassDef) and node.name == found.__name__:
            return node
    raise AssertionError(f"{found} is not in its own module")
