"""The reference pages are what the code says now, and the links of all pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import generate
import pytest
from fences import ROOT, name_of, pages

_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    page = generate.FOLDER / name

    written = page.read_text(encoding="utf-8") if page.is_file() else ""

    assert written == generate.PAGES[name](), f"docs/reference/{name} is stale: {generate.COMMAND}"


def test_every_public_name_is_in_the_page_of_public_names() -> None:
    import pytest_agentguard

    page = generate.api()

    assert [name for name in pytest_agentguard._HOME if f"| `{name}" not in page] == []


def test_every_field_of_every_public_dataclass_is_in_the_page_of_public_names() -> None:
    import dataclasses

    import pytest_agentguard

    page = generate.api()
    public = {name: getattr(pytest_agentguard, name) for name in pytest_agentguard._HOME if name != "Reply"}
    classes = {name: found for name, found in public.items() if isinstance(found, type)}
    tables = {name: found for name, found in classes.items() if dataclasses.is_dataclass(found)}

    for name, found in tables.items():
        table = page.partition(f"### Fields of `{name}`\n")[2].partition("\n#")[0]
        assert [f.name for f in dataclasses.fields(found) if f"\n| `{f.name}` |" not in table] == [], name


def test_every_parameter_of_a_battery_in_a_test_is_in_the_page_of_public_names() -> None:
    import inspect

    from pytest_agentguard._plugin.fixtures import AgentGuard

    line = next(line for line in generate.api().splitlines() if line.startswith("| `run_battery("))

    assert [name for name in inspect.signature(AgentGuard.run_battery).parameters if name not in line] == [
        "self"
    ]


def test_every_kind_of_fault_is_in_the_page_of_replies() -> None:
    from pytest_agentguard._core.script import KINDS

    page = generate.replies()

    assert [kind for kind in KINDS if f"\n| `{kind}` | " not in page] == []


def test_every_page_that_is_made_names_the_command_that_makes_it() -> None:
    texts = {page.name: page.read_text(encoding="utf-8")[:300] for page in generate.FOLDER.glob("*.md")}
    made = {name: text for name, text in texts.items() if "do not edit" in text}
    commands = {name: re.findall(r"`python (\S+) --write`", text) for name, text in made.items()}

    assert [name for name, found in commands.items() if len(found) != 1] == []
    assert [found for (found,) in commands.values() if not (ROOT / found).is_file()] == []
    assert set(commands) == {*generate.PAGES, "mutants.md"}


def test_every_method_of_a_reply_is_in_its_page() -> None:
    from pytest_agentguard import Reply

    public = [n for n, value in vars(Reply).items() if callable(value) and not n.startswith("_")]
    page = generate.replies()

    assert [name for name in public if f"| `{name}(" not in page] == []


def test_every_event_is_in_the_page_of_events() -> None:
    from pytest_agentguard import events

    page = generate.events_page()

    assert [n for n in events.__all__ if n not in ("Event", "Witness") and f"### {n}\n" not in page] == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    local = [link for link in _LINK.findall(text) if not re.match(r"https?:|mailto:", link)]

    assert [link for link in local if not _leads(page, link)] == []


def test_the_index_leads_to_every_page() -> None:
    folder = ROOT / "docs"
    links = _LINK.findall((folder / "index.md").read_text(encoding="utf-8"))

    assert {str(page.relative_to(folder)) for page in folder.rglob("*.md")} - {"index.md"} <= set(links)


def _leads(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in _anchors(target.read_text(encoding="utf-8"))


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
