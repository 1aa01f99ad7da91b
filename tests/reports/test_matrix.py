"""The worst outcome in each cell."""

from __future__ import annotations

import pytest
import report_documents as given

from pytest_agentguard.reports.matrix import ASCII_SIGNS, SIGNS, Cell, matrix_of


def cell(*outcomes: str, **more: str) -> Cell:
    checks = [given.check("r", outcome, **more).to_json() for outcome in outcomes]
    return matrix_of(checks).cell("r", "openai-chat", "stream")


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        (["held", "violated"], "violated"),
        (["invalid", "violated"], "violated"),
        (["held", "invalid"], "invalid"),
        (["held", "known"], "known"),
        (["not exercised", "held"], "held"),
        (["not exercised"], "not exercised"),
    ],
)
def test_a_cell_shows_the_worst_outcome_of_its_scenarios(outcomes, worst):
    assert cell(*outcomes).outcome == worst
    assert cell(*reversed(outcomes)).outcome == worst


def test_a_cell_keeps_the_worst_level_of_its_violations():
    may, must = (given.check("r", "violated", level=level).to_json() for level in ("may", "must"))

    assert matrix_of([may, must]).cell("r", "openai-chat", "stream") == Cell("violated", "must")
    assert matrix_of([must, may]).cell("r", "openai-chat", "stream") == Cell("violated", "must")


def test_mode_both_counts_in_both_columns():
    matrix = matrix_of([given.check("r", "held", mode="both").to_json()])

    assert [matrix.cell("r", "openai-chat", mode).outcome for mode in ("stream", "block")] == ["held", "held"]


def test_what_did_not_occur_is_not_covered():
    matrix = matrix_of([given.check("r", "held").to_json()])

    assert matrix.rules == ("r",)
    assert matrix.cell("r", "openai-chat", "block") == Cell("not covered")
    assert matrix.cell("other", "openai-chat", "stream") == Cell("not covered")


def test_the_order_of_the_checks_does_not_matter():
    checks = given.battery()["checks"]

    assert matrix_of(checks) == matrix_of(checks[::-1])


def test_every_sign_is_one_column_and_differs_from_the_others():
    for signs in (SIGNS, ASCII_SIGNS):
        assert all(len(sign) == 1 for sign in signs.values())
        assert len(set(signs.values())) == len(signs)
    assert "".join(ASCII_SIGNS.values()).isascii()
