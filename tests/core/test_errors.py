"""One family of exceptions, and the nearest name for one that does not exist."""

from __future__ import annotations

import pytest

from pytest_agentguard import AgentguardError, LimitReached, ProtocolError, UsageError
from pytest_agentguard._core.errors import unknown_name


@pytest.mark.parametrize("kind", [UsageError, ProtocolError, LimitReached])
def test_everything_raised_on_purpose_is_of_one_family(kind: type[Exception]) -> None:
    assert issubclass(kind, AgentguardError)
    assert not issubclass(kind, ValueError | OSError)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    error = unknown_name("invariant", "stall-end", ["tool-runs-once", "stall-ends"])
    assert str(error) == "unknown invariant 'stall-end'; did you mean 'stall-ends'?"
    assert isinstance(error, UsageError)


def test_a_name_near_to_none_is_answered_with_all_in_order() -> None:
    assert str(unknown_name("dialect", "xyz", ["b-b", "a-a"])) == "unknown dialect 'xyz'; known: a-a, b-b"


def test_where_there_is_nothing_that_is_said() -> None:
    assert str(unknown_name("agent", "x", [])) == "unknown agent 'x'; known: none"
