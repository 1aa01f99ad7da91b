"""The JSON report: one document, whole or not at all, valid for ``docs/reference/report.schema.json``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agentguard._core import limits

_DEPTH = 32  # nested values deeper than this are written as their repr
_ORDER = ("agent", "surface", "scenario", "dialect", "mode", "invariant")


def write(path: Path | str, document: Mapping[str, Any]) -> None:
    """Write the report to ``path``, atomically; whoever reads it sees the old one or the new one.

    Missing folders are made. Raises ``OSError`` where the file cannot be written; no temporary file is left.
    """
    target = Path(path)
    data = dumps(document).encode("ascii")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def dumps(document: Mapping[str, Any]) -> str:
    """The report as text: checks in a fixed order, no NaN, ASCII only."""
    checks = sorted(document["checks"], key=_place)
    ready = {**document, "checks": checks}
    return json.dumps(_plain(ready), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _place(check: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(check.get(name, "")) for name in _ORDER)


def _plain(value: Any, depth: int = 0) -> Any:
    """Only what JSON has: numbers that it lacks become their names, everything else its ``repr``."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return str(value)
        case float():
            return value if math.isfinite(value) else repr(value)
        case Mapping() if depth < _DEPTH:
            return {str(name): _plain(inner, depth + 1) for name, inner in value.items()}
        case list() | tuple() if depth < _DEPTH:
            return [_plain(inner, depth + 1) for inner in value]
    return repr(value)[: limits.REPORT_TEXT]
