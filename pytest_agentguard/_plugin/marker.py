"""Reads ``@pytest.mark.agentguard``: which rules a test asks for by name, and the limits that it declares."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_agentguard._core.contracts import Limits
from pytest_agentguard._core.errors import AgentguardError, UsageError, unknown_name
from pytest_agentguard.catalogue import invariant

NAME = "agentguard"
_ALLOW = "allow_not_exercised"
_WHOLE = {"attempts", "rounds", "tool_calls", "output_bytes", "context_tokens"}
_LIMITS = tuple(entry.name for entry in dataclasses.fields(Limits))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a test asks for: rules by id, each with whether it may stay unexercised, and limits."""

    rules: Mapping[str, bool]
    limits: Limits


def asked(item: pytest.Item) -> Asked:
    """Everything that the markers of function, class and module ask for; the closest one wins.

    Raises ``pytest.UsageError`` for a marker that names no rule, an unknown rule or an unknown option.
    """
    rules: dict[str, bool] = {}
    limits: dict[str, Any] = {}
    try:
        for mark in item.iter_markers(NAME):
            for id in _ids(mark):
                rules.setdefault(id, _allows(mark))
            limits = {**dict(_limits(mark)), **limits}
    except AgentguardError as problem:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.{NAME}: {problem}") from None
    except Exception as problem:  # a rule's file that cannot be imported
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.{NAME}: {type(problem).__name__}: {problem}"
        ) from problem
    return Asked(rules, Limits(**limits))


def _ids(mark: pytest.Mark) -> tuple[str, ...]:
    if not mark.args:
        raise UsageError("names no rule")
    for id in mark.args:
        if not isinstance(id, str):
            raise UsageError(f"takes the ids of rules as strings, not {id!r}")
        invariant(id)
    return mark.args


def _allows(mark: pytest.Mark) -> bool:
    value = mark.kwargs.get(_ALLOW, False)
    if not isinstance(value, bool):
        raise UsageError(f"{_ALLOW} takes True or False, not {value!r}")
    return value


def _limits(mark: pytest.Mark) -> Iterator[tuple[str, Any]]:
    for name, value in mark.kwargs.items():
        if name == _ALLOW:
            continue
        if name not in _LIMITS:
            raise unknown_name("option", name, (_ALLOW, *_LIMITS))
        kinds = int if name in _WHOLE else int | float
        if not isinstance(value, kinds) or isinstance(value, bool) or not value > 0:
            wanted = "a whole number from 1" if name in _WHOLE else "a number of seconds above 0"
            raise UsageError(f"{name} takes {wanted}, not {value!r}")
        yield name, value
