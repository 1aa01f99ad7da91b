"""Conformance checks for extensions: the shipped ones pass, and each flaw is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_agentguard import Dialect, Frame, Lane, Reply, Scenario, Variant, Where, catalogue
from pytest_agentguard.testing import check_dialect, check_scenario

DIALECTS = catalogue.dialects()
SCENARIOS = catalogue.scenarios()
RULES = catalogue.invariants()


@pytest.mark.parametrize("id", DIALECTS)
def test_a_shipped_dialect_conforms(id):
    assert check_dialect(DIALECTS[id]) == []


@pytest.mark.parametrize("id", SCENARIOS)
def test_a_shipped_scenario_conforms(id):
    assert check_scenario(SCENARIOS[id], dialects=DIALECTS.values(), invariants=RULES) == []


def broken(**changes: Any) -> list[str]:
    return check_dialect(replace(DIALECTS["openai-chat"], **changes))


def reframed(change: Any) -> list[str]:
    """The problems of a dialect whose frames are changed one by one."""
    good: Dialect = DIALECTS["openai-chat"]
    return broken(encode=lambda turn, mode, ids: tuple(map(change, good.encode(turn, mode, ids))))


def test_tables_that_lack_something_are_named():
    assert broken(paths=("chat",))[0].startswith("paths and models_path start with a slash")
    assert broken(statuses={"auth": 401})[0].startswith("statuses lacks bad-request, context, ")
    assert broken(environment={"KEY": "token"})[0] == "environment maps to base_url or api_key, not token"
    assert broken(samples=())[0] == "samples is empty"


def test_a_sample_that_differs_is_named_with_the_first_event():
    sample = DIALECTS["openai-chat"].samples[0]
    other = replace(sample, events=[*sample.events[:-1], "[ENDE]"])

    assert broken(samples=(other,)) == [
        f"samples[0] differs from the encoded turn from event {len(sample.events) - 1} on"
    ]


def test_a_missing_finish_mark_is_named():
    problems = reframed(lambda frame: replace(frame, finish=False))

    assert "text, stream: marks finish=0 expected=1" in problems


def test_a_call_that_never_becomes_whole_is_named():
    problems = reframed(lambda frame: replace(frame, wholes=()))

    assert "one call, stream: begun=['s1.c1'] whole=[] expected=['s1.c1']" in problems


def test_a_call_that_is_whole_before_it_begins_is_named():
    def early(frame: Frame) -> Frame:
        return replace(frame, wholes=("s1.c1",)) if not frame.finish and not frame.marker else frame

    problems = reframed(early)

    assert (
        "text and call, stream: marks go back, or a call is whole before it has begun, at byte"
        in " ".join(problems)
    )


def test_errors_and_lists_without_their_words_are_named():
    problems = broken(
        error_body=lambda status, kind, message: b"{}",
        error_event=lambda kind, message: b"",
        models=lambda names: b"[]",
    )

    assert problems == [
        "error_body lacks the message", "error_event lacks the message", "models lacks the name of a model"
    ]  # fmt: skip


def test_a_reader_that_raises_is_named():
    problems = broken(read=lambda path, body: body["messages"])

    assert problems[0] == "read raises KeyError on odd body 0: 'messages'"


def scenario(**changes: Any) -> list[str]:
    given: dict[str, Any] = {
        "id": "x",
        "summary": "Something.",
        "invariants": ("tool-runs-once",),
        "script": lambda setup: [Reply().text("hi")],
        "hint": "Because.",
    }
    made = Scenario(**{**given, **changes})
    return check_scenario(made, dialects=DIALECTS.values(), invariants=RULES)


def test_a_small_scenario_conforms():
    assert scenario() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"summary": ""}, "summary is empty"),
        ({"hint": " "}, "hint is empty"),
        ({"invariants": ()}, "invariants is empty"),
        ({"invariants": ("tool-runs-twice",)}, "unknown invariant 'tool-runs-twice'"),
        ({"script": None}, "exactly one of script, vary and lanes is needed, not none"),
        (
            {"lanes": lambda setup: [Lane("a", [Reply().text("hi")])]},
            "exactly one of script, vary and lanes is needed, not script, lanes",
        ),
        ({"variants": (Variant("n"),)}, "variants and vary go together"),
        ({"together": True}, "together needs lanes"),
        ({"dialects": ("klingon",)}, "exists in none of the dialects and modes"),
        ({"script": lambda setup: []}, "openai-chat stream: no replies"),
        (
            {"script": lambda setup: [Reply().text("a", "b").pause(1, Where("piece", part=7))]},
            "openai-chat stream: reply 0: the reply has no fragment 0 of part 7",
        ),
    ],
)
def test_a_flaw_of_a_scenario_is_named(changes, problem):
    assert problem in scenario(**changes)
