"""The reference minus one guard each: agents that a rule must catch, in files that say what is missing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mutant:
    """An agent without one guard: ``run(job)`` as of any agent, and the rules that it breaks.

    ``kept(job)`` is the text that a cancelled run says it has kept. A fetch tool without one guard has
    ``fetch(job)``, and no ``run``.
    """

    run: Callable[[Any], Awaitable[str]] | None = None
    breaks: tuple[str, ...] = ()
    kept: Callable[[Any], str | None] | None = None
    fetch: Callable[[Any], Callable[[str], Awaitable[str]]] | None = None


def mutants() -> Mapping[str, Mutant]:
    """Every agent without one guard, by the name of its file."""
    return {name: mutant for name, mutant in _all() if mutant.fetch is None}


def fetch_mutants() -> Mapping[str, Mutant]:
    """Every fetch tool without one guard, by the name of its file."""
    return {name: mutant for name, mutant in _all() if mutant.fetch is not None}


def _all() -> Iterator[tuple[str, Mutant]]:
    for name in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
        yield name, importlib.import_module(f"{__name__}.{name}").MUTANT
