"""Turns: text, calls, and the order in which their fragments leave."""

from __future__ import annotations

from pytest_agentguard import Text, ToolCall, Turn

A = Text(("a", "b"))
F = ToolCall("f", ("1", "2", "3"), key="c1")
G = ToolCall("g", ("4",), key="c2")


def test_a_turn_knows_its_text_and_its_calls() -> None:
    turn = Turn((A, F, Text(("c",)), G))
    assert turn.text == "abc"
    assert turn.calls == (F, G)
    assert F.arguments == "123"


def test_fragments_leave_part_by_part() -> None:
    assert list(Turn((A, F)).pieces()) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


def test_interleaved_calls_alternate_after_all_text() -> None:
    turn = Turn((F, A, G), interleaved=True)
    assert list(turn.pieces()) == [(1, 0), (1, 1), (0, 0), (2, 0), (0, 1), (0, 2)]


def test_an_empty_turn_has_no_fragments() -> None:
    assert list(Turn().pieces()) == []
    assert list(Turn(interleaved=True).pieces()) == []
