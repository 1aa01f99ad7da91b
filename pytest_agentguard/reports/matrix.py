"""The matrix: one row per rule, one column per dialect and mode, the worst outcome in each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_agentguard._core.contracts import MODES
from pytest_agentguard._core.verdict import Level, Outcome
from pytest_agentguard.reports.text import clipped, columns, safe

NOT_COVERED = "not covered"

SIGNS: Mapping[str, str] = {
    Outcome.HELD: "✓",
    Outcome.VIOLATED: "✗",
    Outcome.INVALID: "!",
    Outcome.KNOWN: "k",
    Outcome.NOT_EXERCISED: "·",
    NOT_COVERED: "-",
}
"""The sign of each outcome."""

ASCII_SIGNS: Mapping[str, str] = {
    **SIGNS,
    Outcome.HELD: "+",
    Outcome.VIOLATED: "x",
    Outcome.NOT_EXERCISED: ".",
}
"""The same where the terminal has no Unicode."""

_COLOURS: Mapping[str, Mapping[str, bool]] = {
    Outcome.HELD: {"green": True},
    Outcome.VIOLATED: {"red": True, "bold": True},
    Outcome.INVALID: {"yellow": True, "bold": True},
    Outcome.KNOWN: {"yellow": True},
    Outcome.NOT_EXERCISED: {"light": True},
    NOT_COVERED: {"light": True},
}

_WORST = (Outcome.VIOLATED, Outcome.INVALID, Outcome.KNOWN, Outcome.HELD, Outcome.NOT_EXERCISED)
_ORDER = ("openai-chat", "openai-responses", "anthropic")
_GAP = 3

Piece = tuple[str, Mapping[str, bool]]
"""Text and how to mark it up."""

Line = list[Piece]


@dataclass(frozen=True, slots=True)
class Cell:
    """The worst outcome of one rule in one column, and the worst level at which it was violated."""

    outcome: str = NOT_COVERED
    level: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rules × (dialect, mode). A surface without a model stands in the place of a dialect."""

    rules: tuple[str, ...]
    dialects: tuple[str, ...]
    modes: Mapping[str, tuple[str, ...]]  # by dialect
    cells: Mapping[tuple[str, str, str], Cell]

    def cell(self, rule: str, dialect: str, mode: str) -> Cell:
        """The cell of a rule in a column."""
        return self.cells.get((rule, dialect, mode), Cell())


def matrix_of(checks: Iterable[Mapping[str, Any]]) -> Matrix:
    """The matrix of the checks of one agent; a check in mode ``both`` counts in both columns."""
    found: dict[tuple[str, str, str], Cell] = {}
    for check in checks:
        for mode in MODES if check["mode"] == "both" else (check["mode"],):
            key = (check["invariant"], check["dialect"] or check["surface"], mode)
            found[key] = _worse(found.get(key), Cell(check["outcome"], check["level"]))
    rules = tuple(sorted({rule for rule, _, _ in found}))
    dialects = tuple(sorted({dialect for _, dialect, _ in found}, key=_dialect_key))
    return Matrix(rules, dialects, {d: _modes(d, found) for d in dialects}, found)


def _worse(one: Cell | None, other: Cell) -> Cell:
    return other if one is None else min(one, other, key=_cell_key)


def _cell_key(cell: Cell) -> tuple[int, int]:
    place = [str(o) for o in _WORST].index(cell.outcome) if cell.outcome in _WORST else len(_WORST)
    return place, Level(cell.level).rank if cell.outcome == Outcome.VIOLATED else 0


def _dialect_key(dialect: str) -> tuple[int, str]:
    return (_ORDER.index(dialect) if dialect in _ORDER else len(_ORDER), dialect)


def _modes(dialect: str, cells: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    """Both modes of a dialect, so that a missing one shows; where there is neither, what there is."""
    own = {mode for _, of, mode in cells if of == dialect}
    others = tuple(sorted(own - set(MODES)))
    return (*MODES, *others) if own & set(MODES) else others


# -- as lines ---------------------------------------------------------------------------------------


def lines_of(
    matrix: Matrix, *, width: int, unicode: bool = True, families: Mapping[str, str] | None = None
) -> list[Line]:
    """The matrix within ``width`` columns: as many dialects side by side as fit, the rest in further blocks.

    ``families`` (rule to family) puts a quiet line before each family.
    """
    blocks = _blocks(matrix, width)
    first = max(4, width - max((_width(matrix, d) for d in matrix.dialects), default=0))
    first = min(max((len(r) for r in ("rule", *matrix.rules)), default=4) + _GAP, first)
    made: list[Line] = []
    for dialects in blocks:
        made += [[]] * bool(made)
        made += _head(matrix, dialects, first, unicode)
        made += _rows(matrix, dialects, first, unicode, families or {})
    return made


def _blocks(matrix: Matrix, width: int) -> list[tuple[str, ...]]:
    first = max((len(rule) for rule in ("rule", *matrix.rules)), default=4) + _GAP
    blocks: list[tuple[str, ...]] = []
    used = 0
    for dialect in matrix.dialects:
        wide = _width(matrix, dialect)
        if blocks and first + used + wide <= width:
            blocks[-1] = (*blocks[-1], dialect)
            used += wide
        else:
            blocks.append((dialect,))
            used = wide
        used += _GAP
    return blocks


def _width(matrix: Matrix, dialect: str) -> int:
    return max(columns(_name(dialect)), len(_mode_heads(matrix, dialect)))


def _mode_heads(matrix: Matrix, dialect: str) -> str:
    return " ".join(mode or "" for mode in matrix.modes[dialect])


def _name(dialect: str, unicode: bool = True) -> str:
    return safe(dialect, unicode) or "no model"


def _head(matrix: Matrix, dialects: Sequence[str], first: int, unicode: bool) -> list[Line]:
    names = (_padded(_name(d, unicode), _width(matrix, d)) for d in dialects)
    modes = (_padded(_mode_heads(matrix, d), _width(matrix, d)) for d in dialects)
    gap = " " * _GAP
    return [
        [(f"{clipped('rule', first - 1, unicode):<{first}}{gap.join(names)}".rstrip(), {"bold": True})],
        [(f"{'':<{first}}{gap.join(modes)}".rstrip(), {"light": True})],
    ]


def _rows(
    matrix: Matrix, dialects: Sequence[str], first: int, unicode: bool, families: Mapping[str, str]
) -> list[Line]:
    made: list[Line] = []
    last = None
    for rule in sorted(matrix.rules, key=lambda rule: (families.get(rule, ""), rule)):
        family = families.get(rule, "")
        if family != last and family:
            made.append([(clipped(f"{safe(family, unicode)}:", first, unicode), {"light": True})])
        last = family
        made.append(_row(matrix, rule, dialects, first, unicode))
    return made


def _row(matrix: Matrix, rule: str, dialects: Sequence[str], first: int, unicode: bool) -> Line:
    line: Line = [(_padded(clipped(safe(rule, unicode), first - 1, unicode), first), {})]
    for dialect in dialects:
        left = _width(matrix, dialect) + _GAP
        for mode in matrix.modes[dialect]:
            wide = len(mode or "any") + 1
            line += [_sign(matrix.cell(rule, dialect, mode), unicode), (" " * (wide - 1), {})]
            left -= wide
        line.append((" " * left, {}))
    while line and not line[-1][0].strip():
        line.pop()
    return line


def _sign(cell: Cell, unicode: bool) -> Piece:
    signs = SIGNS if unicode else ASCII_SIGNS
    colour = _COLOURS.get(cell.outcome, {})
    if cell.outcome == Outcome.VIOLATED and cell.level == Level.MAY:
        colour = {"yellow": True}
    return signs.get(cell.outcome, "?"), colour


def legend(matrix: Matrix, unicode: bool = True) -> Line:
    """The signs that the matrix uses, in words."""
    used = {
        matrix.cell(rule, dialect, mode).outcome
        for rule in matrix.rules
        for dialect in matrix.dialects
        for mode in matrix.modes[dialect]
    }
    signs = SIGNS if unicode else ASCII_SIGNS
    return [("  ".join(f"{sign} {outcome}" for outcome, sign in signs.items() if outcome in used), {})]


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - columns(text))
