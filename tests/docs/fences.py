"""Reads the fenced examples of a page, and the comment above each that says how it is run.

- ``<!-- example: file=agent.py -->`` writes a file of that name, over an earlier one. A test file that
  no later command has run is run at the end of the page, and passes.
- ``<!-- example: script -->`` runs Python by itself.
- ``<!-- example: run -->`` runs the ``pytest`` commands of a console and compares what they print; ``exit=1``
  is the status that they end with.
- ``<!-- example: shown REASON -->`` shows what cannot be run here, which Python never is.
- ``<!-- with: agent.py of docs/page.md -->`` writes the file as that page leaves it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
ILLUSTRATIONS = ("", "text", "mermaid")  # languages that no program reads
KINDS = ("file", "script", "run", "shown")

_COMMENT = re.compile(r"<!-- example: (.+?) -->")
_BORROWED = re.compile(r"<!-- with: (\S+) of (\S+) -->")
_OPENING = re.compile(r"( *)```(\S*).*")


@dataclass(frozen=True)
class Fence:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    kind: str = ""  # one of KINDS; empty: no comment says how it is run
    options: dict[str, str] = field(default_factory=dict)
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def problems(self) -> Iterator[str]:
        """Why nobody knows how to run it."""
        if not self.kind:
            if self.language not in ILLUSTRATIONS:
                yield f"{self}: no comment `<!-- example: … -->` above it says how it is run"
        elif self.kind not in KINDS:
            yield f"{self}: {self.kind!r} is none of {', '.join(KINDS)}"
        elif self.kind == "shown" and (self.language == "python" or not self.reason):
            yield f"{self}: only what is not Python may be shown without being run, with a reason"
        elif self.kind == "run" and not self.commands():
            yield f"{self}: there is no `$ pytest` in it"

    def commands(self) -> list[tuple[list[str], list[str]]]:
        """The pytest commands of a console, as arguments, each with the lines that it prints."""
        found: list[tuple[list[str], list[str]]] = []
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.startswith("$ pytest"):
                found.append((shlex.split(line.removeprefix("$ pytest")), []))
            elif line.strip() and found:
                found[-1][1].append(line)
        return found


def pages() -> list[Path]:
    """The README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    """Where a page stands in the checkout."""
    return page.relative_to(ROOT).as_posix()


def fences(page: Path) -> list[Fence]:
    """The fenced blocks of a page, in order."""
    return list(_fences(page.read_text(encoding="utf-8"), name_of(page)))


def _fences(text: str, name: str) -> Iterator[Fence]:
    lines = iter(enumerate(text.splitlines(), 1))
    said = ""
    for number, line in lines:
        comment, borrowed, opening = _COMMENT.search(line), _BORROWED.search(line), _OPENING.fullmatch(line)
        if borrowed:
            yield _left_by(ROOT / borrowed[2], borrowed[1])
        if opening:
            body = _body(lines, opening[1])
            yield _fence(name, number, opening[2], body, said)
        said = comment[1] if comment else "" if line.strip() else said


def _left_by(page: Path, file: str) -> Fence:
    """The file as the examples of another page leave it."""
    found = [fence for fence in fences(page) if fence.options.get("file") == file]
    assert found, f"{page} writes no {file}"
    return found[-1]


def _body(lines: Iterator[tuple[int, str]], indent: str) -> str:
    body = []
    for _, line in lines:
        if line.strip() == "```":
            break
        body.append(line.removeprefix(indent))
    return "\n".join(body) + "\n"


def _fence(page: str, line: int, language: str, text: str, said: str) -> Fence:
    kind, _, rest = said.partition(" ")
    if kind == "shown":
        return Fence(page, line, language, text, kind, reason=rest)
    words = [word.partition("=") for word in said.split()]
    options = {name: value for name, _, value in words}
    return Fence(page, line, language, text, words[0][0] if words else "", options)
