"""Every fault, applied to the same healthy reply: what leaves is what its entry says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_agentguard import Fault, Reply, Seen, catalogue
from pytest_agentguard.testing import check_fault

FAULTS = catalogue.faults()
DIALECTS = list(catalogue.dialects().values())


@pytest.mark.parametrize("id", FAULTS)
def test_a_shipped_fault_is_what_it_says(id: str) -> None:
    assert check_fault(FAULTS[id], dialects=DIALECTS) == []


def test_every_fault_says_in_one_line_what_it_is() -> None:
    for fault in FAULTS.values():
        assert fault.summary.endswith("."), fault.id


def test_every_way_to_be_seen_has_a_fault() -> None:
    assert {fault.seen for fault in FAULTS.values()} == set(Seen)


def problems(apply: Callable[[Reply], Reply], seen: Seen) -> list[str]:
    """What is wrong in one dialect and mode."""
    fault = Fault(apply, seen=seen, modes=("stream",))
    return check_fault(fault, dialects=[catalogue.dialect("openai-chat")])


def test_a_line_of_a_gateway_is_foreign_as_a_page_is() -> None:
    assert problems(lambda reply: reply.body(b"upstream request timeout"), Seen.FOREIGN) == []


@pytest.mark.parametrize(
    ("apply", "seen", "fact"),
    [
        (Reply.cut, Seen.WHOLE, "complete=False expected=True"),
        (Reply.usage, Seen.INCOMPLETE, "complete=True expected=False"),
        (Reply.stall, Seen.INCOMPLETE, "is_silent=True expected=False"),
        (Reply.cut, Seen.SILENT, "is_silent=False expected=True"),
        (Reply.usage, Seen.WITHDRAWN, "permits_calls=True expected=False"),
        (Reply.cut, Seen.ERROR, "has_error=False expected=True"),
        (Reply.cut, Seen.EMPTY, "is_empty=False expected=True"),
        (Reply.cut, Seen.FOREIGN, "is_part=True expected=False"),
        (lambda reply: reply.html(status=502), Seen.FOREIGN, "is_200=False expected=True"),
    ],
)
def test_what_a_client_cannot_see_is_named(apply: Callable[[Reply], Reply], seen: Seen, fact: str) -> None:
    assert f"openai-chat stream: seen={seen} and {fact}" in problems(apply, seen)


def test_a_fault_that_changes_nothing_is_named() -> None:
    assert problems(lambda reply: reply, Seen.WHOLE) == ["apply changes nothing"]


def test_a_fault_that_is_not_pure_is_named() -> None:
    numbers = iter(range(10))

    found = problems(lambda reply: reply.body(b"%d" % next(numbers)), Seen.FOREIGN)

    assert found == ["apply gives another reply the second time"]


def test_a_fault_that_raises_is_named() -> None:
    raised = problems(lambda reply: reply.cut(inside="y"), Seen.INCOMPLETE)

    assert raised == ["apply raises UsageError: no call of this reply has an argument named 'y'"]


def test_unknown_fault_is_a_usage_error_with_the_nearest_name() -> None:
    with pytest.raises(catalogue.UsageError, match="unknown fault 'clean-cuts'; did you mean 'clean-cut'"):
        catalogue.fault("clean-cuts")
