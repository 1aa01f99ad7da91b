"""The reference minus one guard each: agents that a rule must catch, in files that say what is missing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mutant:
    """An agent without one guard: ``run(job)`` as of any agent, and the rules that it breaks."""

    run: Callable[[Any], Awaitable[str]]
    breaks: tuple[str, ...]


def mutants() -> Mapping[str, Mutant]:
    """Every mutant by the name of its file."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").MUTANT for name in names}
