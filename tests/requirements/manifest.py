"""The rows of the requirements: what each asks for, and what proves it or which capability it waits for.

``python tests/requirements/manifest.py --write`` writes ``docs/reference/requirements.md``.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "requirements.md"
CAPABILITIES = ("stopping", "processes", "sessions", "corpus")
REFERENCES = ("reference", "reference-trio")
EVERY = "*"
IDS = tuple(
    f"{part}{n:02}" for part, count in zip("ABCD", (45, 19, 12, 12), strict=True) for n in range(1, count + 1)
)

_PARTS = {
    "A": "A desktop agent: tools, endpoint, sessions",
    "B": "Tool execution: does it really stop?",
    "C": "A harness: upper bounds",
    "D": "What this project adds",
}
_COMMAND = "python tests/requirements/manifest.py --write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Scenarios in which the references hold the rules, and mutants that break them there.

    ``kept`` are rules that no mutant of this proof breaks, ``control`` marks jobs with nothing wrong, for
    which there is no mutant. The rules must hold in each of ``dialects``, where there is a model.
    ``witnesses`` must all have had a say in the runs of the mutants; ``receipts`` asks that every stream was
    delivered as planned. ``tests`` are node ids of tests that show what no scenario can; such a proof has
    nothing else.
    """

    scenarios: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    agents: tuple[str, ...] = REFERENCES
    dialects: tuple[str, ...] = ("openai-chat",)
    kept: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()
    receipts: bool = False
    control: bool = False
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: ``later`` is the capability that it comes with, empty where it works.

    ``rest`` is the one that brings what is left of a row that works in part.
    """

    id: str
    says: str
    later: str = ""
    rest: str = ""
    proofs: tuple[Proof, ...] = ()

    @property
    def works(self) -> bool:
        """Whether this release has it."""
        return not self.later


def rows() -> Mapping[str, Row]:
    """Every row by its id."""
    with open(Path(__file__).with_name("rows.toml"), "rb") as file:
        found = tomllib.load(file)
    return {
        id: Row(
            id=id,
            says=row["says"],
            later=row.get("later", ""),
            rest=row.get("rest", ""),
            proofs=tuple(_proof(proof) for proof in row.get("proofs", ())),
        )
        for id, row in found.items()
    }


def _proof(entries: Mapping[str, object]) -> Proof:
    return Proof(**{name: tuple(v) if isinstance(v, list) else v for name, v in entries.items()})  # type: ignore[arg-type]


def marked(folder: Path) -> Iterator[tuple[str, str]]:
    """Where tests say ``requirement("A07")``: the place and the row."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.requirement"):
                for argument in node.args:
                    yield f"{path.relative_to(folder)}:{node.lineno}", str(ast.literal_eval(argument))


def page(found: Mapping[str, Row]) -> str:
    """The documentation page."""
    working = sum(row.works for row in found.values())
    lines = [
        "# Requirements",
        "",
        f"<!-- Made from tests/requirements/rows.toml by `{_COMMAND}`; do not edit. -->",
        "",
        f"{len(found)} rows; {working} work in this release. Most are proven by the battery: the reference",
        "holds the rules, and the mutants break them; some by tests of this repository. The others, and what",
        "is left of some, come with the capability that is named.",
    ]
    for part, title in _PARTS.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| row | what is shown | scenarios, rules, mutants |",
            "|---|---|---|",
        ]
        lines += [_line(row) for row in found.values() if row.id.startswith(part)]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    proven = [*map(_shown, row.proofs)] if row.works else [f"later, with {row.later}"]
    proven += [f"the rest later, with {row.rest}"] if row.rest else []
    return f"| {row.id} | {row.says} | {'<br>'.join(proven)} |"


def _shown(proof: Proof) -> str:
    if proof.scenarios == (EVERY,):
        return "every scenario, [every rule](rules.md), [every mutant](mutants.md)"
    if proof.tests:
        return ", ".join(f"`{node.partition('::')[2]}`" for node in proof.tests)
    rules = ", ".join(f"[{rule}](rules.md#{rule})" for rule in proof.rules)
    parts = [", ".join(f"`{name}`" for name in proof.scenarios), rules]
    parts += [", ".join(f"`{name}`" for name in proof.mutants)] if proof.mutants else []
    return "; ".join(parts)


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(page(rows()), encoding="utf-8")
