"""Makes the reference pages from the code: ``python tests/docs/generate.py --write``.

One page is made by running every mutant, and by ``python tests/mutants/table.py --write``.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import fields

import pytest_agentguard
from pytest_agentguard import Reply, catalogue, plugin, reading, testing
from pytest_agentguard._core import limits, script
from pytest_agentguard._core import reply as reply_module
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reports import catalogue_pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_MANIFEST = Path(__file__).parents[1] / "requirements" / "manifest.py"
COMMAND = "python tests/docs/generate.py --write"
_MADE = f"<!-- Made from the code by `{COMMAND}`; do not edit. -->"
_SECTION = re.compile(r" *# -- (.+?) -+$")
_SPECIFICATION = re.compile(r" \((?:E\d|wire facts)[^)]*\)")  # where a docstring points outside these pages


def rules() -> str:
    """The page of rules."""
    return catalogue_pages.rules_page(catalogue.invariants(), catalogue.scenarios())


def scenarios() -> str:
    """The page of scenarios."""
    return catalogue_pages.scenarios_page(catalogue.scenarios())


def faults() -> str:
    """The page of faults."""
    return catalogue_pages.faults_page(catalogue.faults())


def requirements() -> str:
    """The page of requirements, which its own program makes."""
    found = importlib.util.spec_from_file_location("manifest", _MANIFEST)
    assert found is not None
    assert found.loader is not None
    manifest = importlib.util.module_from_spec(found)
    sys.modules["manifest"] = manifest  # its dataclasses look for themselves there
    found.loader.exec_module(manifest)
    return str(manifest.page(manifest.rows()))


# -- options ------------------------------------------------------------------------------------------


class Options:
    """Stands where pytest's parser stands, and keeps what the plugin declares."""

    def __init__(self) -> None:
        self.given: list[tuple[str, dict[str, Any]]] = []
        self.ini: list[tuple[str, str]] = []

    def getgroup(self, *_: str) -> Options:
        """The group is the parser itself."""
        return self

    def addoption(self, name: str, **how: Any) -> None:
        """One option of the command line."""
        self.given.append((name, how))

    def addini(self, name: str, help: str, type: str = "string", **_: Any) -> None:
        """One ini option."""
        self.ini.append((name, type))


def options() -> str:
    """The page of options, marker, fixtures and hooks."""
    parser = Options()
    plugin.pytest_addoption(parser)  # type: ignore[arg-type]
    lines = ["The battery is about to run where `--agentguard` is given or its ini twin is true; the other"]
    lines += ["options need it. Selection is pytest's own: `-k`, `-m`, `--lf`, `-x`.", ""]
    lines += ["| option | ini | type | what it does |", "|---|---|---|---|"]
    for (name, how), (ini, kind) in zip(parser.given, parser.ini, strict=True):
        value = how.get("metavar") or "\\|".join(how.get("choices", ()))
        text = how["help"].partition(" Ini: ")[0]
        lines.append(f"| `{f'{name} {value}'.strip()}` | `{ini}` | {kind} | {_cell(text)} |")
    lines += ["", "## Marker", "", *_marker(), "", "## Fixtures", "", "| fixture | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(doc)} |" for name, doc in _fixtures()]
    lines += ["", "## Hooks", "", "| hook | what a conftest gives |", "|---|---|"]
    lines += [f"| `{name}()` | {_cell(doc)} |" for name, doc in _hooks()]
    return _page("Options", lines)


def _marker() -> Iterator[str]:
    call, _, text = plugin._MARKER.partition(": ")
    yield f"`@pytest.mark.{call}`"
    yield ""
    yield text[0].upper() + text[1:]
    yield ""
    named = ", ".join(f"`{field.name}`" for field in dataclasses.fields(pytest_agentguard.Limits))
    yield f"Limits: {named}."


def _fixtures() -> Iterator[tuple[str, str]]:
    for node in ast.parse(inspect.getsource(plugin)).body:
        if isinstance(node, ast.FunctionDef) and "pytest.fixture" in map(ast.unparse, node.decorator_list):
            yield node.name, (ast.get_docstring(node) or "").partition("\n")[0]


def _hooks() -> Iterator[tuple[str, str]]:
    from pytest_agentguard import hookspecs

    for name, hook in sorted(vars(hookspecs).items()):
        if name.startswith("pytest_agentguard_"):
            yield name, inspect.getdoc(hook) or ""


# -- replies ------------------------------------------------------------------------------------------


def replies() -> str:
    """The page of ``Reply``."""
    lines = ["Every method gives a new reply. A position is a `Where`, a number of bytes, or a name of one:"]
    lines += ["`START`, `BEFORE_FINISH`, `AFTER_FINISH`, `END`, `at_byte(n)`, `after_event(n)`.", ""]
    lines += ["`{nonce}` in text and arguments is replaced by a value that is new in every response."]
    for section, methods in _methods().items():
        lines += ["", f"## {section[0].upper()}{section[1:]}", "", "| method | what it does |", "|---|---|"]
        for name in methods:
            method = getattr(Reply, name)
            lines.append(f"| `{name}{_cell(_signature(method))}` | {_cell(_first(method))} |")
    lines += ["", "## Kinds of fault", "", "A reply that is spoiled says how: rules read the kind as"]
    lines += ["`ReplyStarted.fault`. The methods give it; `Reply().named(label, fault)` gives another one of"]
    lines += [
        "this list, and the first kind that is given stays. The [faults](faults.md) have ids of their own."
    ]
    lines += ["", "| kind | what goes wrong |", "|---|---|"]
    lines += [f"| `{kind}` | {_cell(words)} |" for kind, words in script.KINDS.items()]
    return _page("Replies", lines)


def _methods() -> dict[str, list[str]]:
    """The public methods of ``Reply``, by the sections of its source."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in inspect.getsource(reply_module.Reply).splitlines():
        heading, method = _SECTION.match(line), re.match(r" {4}def ([a-z]\w*)\(", line)
        if heading:
            section = re.sub(r" \(.*\)", "", heading[1])
        elif method:
            found.setdefault(section, []).append(method[1])
    return found


def _signature(function: Callable[..., Any]) -> str:
    """The parameters with their defaults, without types."""
    signature = inspect.signature(function)
    given = [
        parameter.replace(annotation=parameter.empty, default=_short(parameter.default))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    return str(signature.replace(parameters=given, return_annotation=signature.empty))


def _short(default: Any) -> Any:
    return (
        default if isinstance(default, str | int | float | bytes | tuple | None) else inspect.Parameter.empty
    )


# -- events -------------------------------------------------------------------------------------------


_EVENT_MODULES = ("events", "http_events")


def events_page() -> str:
    """The page of the kinds of fact."""
    lines = ["A fact is frozen, typed, and names its witness. Import it from `pytest_agentguard.events`.", ""]
    lines += [
        "Every fact has `witness`, `lane`, `seq` (its place in the ledger) and `t` (system-wide monotonic"
    ]
    lines += ["time, s). Neither `seq` nor `t` takes part in comparison.", ""]
    lines += ["`ReplyStarted.fault` is one of the [kinds of fault](replies.md#kinds-of-fault)."]
    for name in _EVENT_MODULES:
        module = importlib.import_module(f"pytest_agentguard._core.{name}")
        for section, classes in _sections(module).items():
            lines += ["", f"## {section[0].upper()}{section[1:]}"]
            for node in classes:
                lines += _event(node, inspect.getsource(module).splitlines())
    return _page("Events", lines)


def _sections(module: ModuleType) -> dict[str, list[ast.ClassDef]]:
    """The event classes by the sections of their module."""
    source = inspect.getsource(module)
    headings = {n: m[1] for n, line in enumerate(source.splitlines(), 1) if (m := _SECTION.match(line))}
    found: dict[str, list[ast.ClassDef]] = {}
    for node in ast.parse(source).body:
        before = [n for n in headings if n < node.lineno]
        if isinstance(node, ast.ClassDef) and before:
            found.setdefault(headings[max(before)], []).append(node)
    return found


def _event(node: ast.ClassDef, source: list[str]) -> Iterator[str]:
    yield from ("", f"### {node.name}", "", (ast.get_docstring(node) or "").replace("``", "`"))
    table = list(fields.rows(node, source, _cell, {}))
    yield from ["", *table] if table else []


# -- limits, public names -----------------------------------------------------------------------------


def limits_page() -> str:
    """The page of bounds."""
    lines = ["Everything has a bound. Reaching one is recorded as an event or raised.", ""]
    lines += ["| bound | value | of what |", "|---|---|---|"]
    for line in inspect.getsource(limits).splitlines():
        found = re.fullmatch(r"([A-Z_]+) = (.+?)  # (.+)", line)
        if found:
            lines.append(f"| `{found[1]}` | {getattr(limits, found[1]):,} | {_cell(found[3])} |")
    return _page("Limits", lines)


_PLACES = {
    "contracts": "Agents and tools", "reply": "Replies", "script": "Positions in a reply", "plan": "Plans",
    "scenario": "Scenarios", "verdict": "Rules and verdicts", "ledger": "The ledger", "fault": "Faults",
    "dialect": "Dialects", "turn": "Turns", "sse": "Server-sent events", "errors": "Errors",
}  # fmt: skip


def api() -> str:
    """The page of public names."""
    lines = ["What is named here is public; everything else may change without notice."]
    for home, title in _PLACES.items():
        module = importlib.import_module(f"pytest_agentguard._core.{home}")
        names = sorted(name for name, place in pytest_agentguard._HOME.items() if place == home)
        lines += ["", f"## {title}", "", "From `pytest_agentguard`:", "", *_names(module, names)]
        lines += fields.tables(module.__name__, names, _cell)
    lines += ["", "## What the fixtures give", "", "None of it is imported; a test asks for the fixture."]
    lines += fields.objects(_signature, _first, _cell)
    for module, text in (
        (reading, "Questions that many rules ask of a ledger. From `pytest_agentguard.reading`:"),
        (testing, "Conformance checks for extensions. From `pytest_agentguard.testing`:"),
        (catalogue, "What there is. From `pytest_agentguard.catalogue`:"),
    ):
        names = [n for n, value in vars(module).items() if _is_function(value) and not n.startswith("_")]
        own = [n for n in names if module is reading or _is_own(module, n)]
        lines += [
            "",
            f"## {module.__name__.rpartition('.')[2].capitalize()}",
            "",
            text,
            "",
            *_names(module, own),
        ]
    lines += ["", "The kinds of fact are in [`pytest_agentguard.events`](events.md)."]
    return _page("Public names", lines)


def _is_function(value: Any) -> bool:
    return callable(value) and inspect.isfunction(inspect.unwrap(value))


def _is_own(module: ModuleType, name: str) -> bool:
    return str(inspect.unwrap(getattr(module, name)).__module__) == module.__name__


def _names(module: ModuleType, names: list[str]) -> list[str]:
    written = _documented(module)
    lines = ["| name | what it is |", "|---|---|"]
    for name in names:
        value = getattr(module, name)
        call = _cell(_signature(value)) if _is_function(value) else ""
        said = (
            written.get(name) or _first(value)
            if callable(value) or name in written
            else f"`{_cell(repr(value))}`"
        )
        lines.append(f"| `{name}{call}` | {_cell(said)} |")
    return lines


def _documented(module: ModuleType) -> Mapping[str, str]:
    """Constants and the string below each that documents it."""
    body = ast.parse(inspect.getsource(module)).body
    found = {}
    for node, below in itertools.pairwise(body):
        named = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(named, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            found[named.id] = str(below.value.value)
    return found


# -- the reference agent ------------------------------------------------------------------------------


def reference_agent() -> str:
    """The page of what a mutant may override."""
    lines = ["The agent that the battery is tested against. A mutant takes one guard out: it overrides one"]
    lines += ["method, or one of the classes that an agent names (`calls`, `intake`, `decoder`, …)."]
    for name, found in _GUARDED.items():
        lines += ["", f"## {name}", "", f"`{found.__module__}.{found.__name__}`. {_cell(_first(found))}", ""]
        lines += ["| method | what it does |", "|---|---|"]
        for method, value in _own_methods(found):
            lines.append(f"| `{method}{_cell(_signature(value))}` | {_cell(_first(value))} |")
    return _page("The reference agent", lines)


def _own_methods(found: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in vars(found).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield name, value


_GUARDED: Mapping[str, type] = {
    "An agent": Agent,
    "Its decisions": Agent.__mro__[1],
    "What is received": Agent.intake,
    "Calls and their pieces": Agent.calls,
}


# -- pages --------------------------------------------------------------------------------------------


def _page(title: str, lines: list[str]) -> str:
    return "\n".join([f"# {title}", "", _MADE, "", *lines]) + "\n"


def _cell(text: str) -> str:
    plain = _SPECIFICATION.sub("", text.replace("``", "`"))
    return " ".join(plain.split()).replace("|", "\\|")


def _first(value: Any) -> str:
    """The first paragraph of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n\n")[0]


PAGES: Mapping[str, Callable[[], str]] = {
    "rules.md": rules,
    "scenarios.md": scenarios,
    "faults.md": faults,
    "options.md": options,
    "replies.md": replies,
    "events.md": events_page,
    "limits.md": limits_page,
    "api.md": api,
    "reference-agent.md": reference_agent,
    "requirements.md": requirements,
}


def main(arguments: list[str]) -> int:
    """Write every page that differs, or say which do."""
    stale = [
        name
        for name, make in PAGES.items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text(encoding="utf-8") != make()
    ]
    for name in stale:
        if "--write" in arguments:
            (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"docs/reference/{name} {'written' if '--write' in arguments else 'is stale'}")
    print("docs/reference/mutants.md is made by running every mutant: python tests/mutants/table.py --write")
    return 0 if "--write" in arguments else int(bool(stale))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
