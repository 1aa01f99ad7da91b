"""Mutants as agents of a battery, each under its name: most have a chat, the others a fetch tool."""

from __future__ import annotations

import importlib
from typing import Any

from pytest_agentguard import Adapter

_PACKAGE = "pytest_agentguard.reference.mutants"


def __getattr__(name: str) -> Adapter:
    """The adapter of the mutant of that name; only its own module is imported."""
    module = f"{_PACKAGE}.{name}"
    try:
        mutant = importlib.import_module(module).MUTANT
    except ModuleNotFoundError as problem:
        if problem.name != module:
            raise
        raise AttributeError(f"there is no mutant {name!r}") from None
    if mutant.fetch is not None:
        return Adapter(name=name, run=_chat, fetch=mutant.fetch, surfaces=("fetch",))
    return Adapter(name=name, run=mutant.run, kept=mutant.kept)


async def _chat(job: Any) -> str:
    """A fetch tool has none."""
    raise NotImplementedError("a fetch tool has no chat")
