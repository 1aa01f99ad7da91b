"""Conformance checks for extensions: the shipped ones pass, and each flaw is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_agentguard import (
    Dialect,
    FetchCall,
    FetchScript,
    Frame,
    Lane,
    Reply,
    Route,
    Scenario,
    Variant,
    Where,
    catalogue,
)
from pytest_agentguard.testing import check_dialect, check_invariant, check_scenario

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
        "script": lambda setup: [Reply().text("It is ", setup.final)],
        "hint": "Because.",
    }
    made = Scenario(**{**given, **changes})
    return check_scenario(made, dialects=DIALECTS.values(), invariants=RULES)


def test_a_small_scenario_conforms():
    assert scenario() == []


def plays(*replies: Any) -> dict[str, Any]:
    """A script that gives these replies."""
    return {"script": lambda setup: [*replies, Reply().text("It is ", setup.final).optional()]}


_AT = "openai-chat stream: "
_FIRST = f"{_AT}reply 0: "
_FOUR = "exactly one of script, vary, lanes and fetch is needed, not"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": ""}, "id is empty"),
        (
            {"id": "Cut_Twice"},
            "id 'Cut_Twice' is not of small letters and digits with single dashes between them",
        ),
        ({"id": "x" * 33}, "id has characters=33 allowed=32"),
        ({"summary": ""}, "summary is empty"),
        ({"summary": "Something"}, "summary does not end with a full stop"),
        ({"hint": " "}, "hint is empty"),
        ({"hint": "because"}, "hint does not end with a full stop"),
        ({"invariants": ()}, "invariants is empty"),
        ({"invariants": "tool-runs-once"}, "invariants is a text, not a tuple of names"),
        (
            {"invariants": ("tool-runs-twice",)},
            "unknown invariant 'tool-runs-twice'; did you mean 'tool-runs-once'?",
        ),
        ({"surface": "chats"}, "unknown surface 'chats'; did you mean 'chat'?"),
        ({"modes": ("blok",)}, "unknown mode 'blok'; did you mean 'block'?"),
        ({"dialects": ("antropic",)}, "unknown dialect 'antropic'; did you mean 'anthropic'?"),
        ({"modes": ()}, "exists in none of the dialects and modes"),
        ({"script": None}, f"{_FOUR} none"),
        ({"lanes": lambda setup: [Lane("a", [Reply().text("hi")])]}, f"{_FOUR} script, lanes"),
        ({"variants": (Variant("n"),)}, "variants and vary go together"),
        ({"together": True}, "together needs lanes"),
        ({"script": lambda setup: []}, f"{_AT}no replies"),
        ({"script": lambda setup: Reply().text("hi")}, f"{_AT}a bare Reply, not a list of replies"),
        ({"script": lambda setup: None}, f"{_AT}a NoneType, not a list of replies"),
        (plays("hi"), f"{_AT}reply 0 is a str"),
        (
            {"script": None, "lanes": lambda setup: [Reply().text("hi")]},
            f"{_AT}the script raises TypeError: lanes gives lanes, not Reply",
        ),
        ({"script": lambda setup: 1 / 0}, f"{_AT}the script raises ZeroDivisionError: division by zero"),
        (
            {"script": lambda setup: [Reply().named("a page", "htm")]},
            f"{_AT}the script raises UsageError: unknown kind of fault 'htm'; did you mean 'html'?",
        ),
        (
            plays(Reply().call("recrod", x="{nonce}")),
            f"{_FIRST}call of unknown tool 'recrod'; did you mean 'record'?",
        ),
        (
            plays(Reply().call("record", xx="{nonce}")),
            f"{_FIRST}call of record with unknown argument 'xx'; did you mean 'x'?",
        ),
        (
            plays(Reply().call("record", x="evidence")),
            _FIRST + "call of record without {nonce} in a value, so that its start joins no offer",
        ),
        (
            {"script": lambda setup: [Reply().text("The answer.")]},
            f"{_AT}no reply has setup.final, so that no answer is known to be real",
        ),
        (
            plays(Reply().text("a", "b").pause(1, Where("piece", part=7))),
            f"{_FIRST}the reply has no fragment 0 of part 7",
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_flaw_of_a_scenario_is_named(changes, problem):
    assert problem in scenario(**changes)


def fetched(**changes: Any) -> list[str]:
    script = FetchScript(routes=(Route(path="/one"),), allowed={"one": "/one"}, calls=(FetchCall("one"),))
    return scenario(script=None, surface="fetch", fetch=replace(script, **changes))


def test_a_fetch_script_conforms():
    assert fetched() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"calls": ()}, "fetch has no calls"),
        ({"allowed": {"one": "/on"}}, "fetch allows 'one' and has no route '/on'; did you mean '/one'?"),
        (
            {"calls": (FetchCall("two"),)},
            "fetch calls 'two' with allowed=True, which is not among the allowed ids",
        ),
        (
            {"calls": (FetchCall("one", allowed=False),)},
            "fetch calls 'one' with allowed=False, which is among the allowed ids",
        ),
    ],
)
def test_a_flaw_of_a_fetch_script_is_named(changes, problem):
    assert fetched(**changes) == [problem]


def test_a_surface_without_its_script_is_named():
    assert scenario(surface="fetch") == ["the surface fetch and fetch= go together"]


def test_a_control_needs_no_rule():
    assert scenario(invariants=(), control=True) == []


def test_what_is_wrong_on_purpose_is_no_flaw():
    unknown = plays(Reply().call("recrod", x="{nonce}"))
    assert scenario(invariants=("unknown-tool-is-an-error",), **unknown) == []
    assert scenario(**plays(Reply().call("record", problem="invalid", z=1))) == []
    assert scenario(script=lambda setup: [Reply().status(503).times(8)]) == []


@pytest.mark.parametrize(
    "source", ["somewhere", "wire facts", "requirement", "https://x.example/a; my own head"]
)
def test_a_source_that_leads_nowhere_is_named(source):
    rule = replace(RULES["stall-ends"], source=source)

    last = source.rpartition("; ")[2]
    assert check_invariant(rule) == [
        f"source {last!r} is none of https://…, wire facts §N, requirement XNN, known defect N"
    ]


def test_every_form_of_a_source_is_taken():
    source = (
        "https://docs.example/errors (status 401); wire facts §4.2; requirements A17, D02; known defect 3"
    )

    assert check_invariant(replace(RULES["stall-ends"], source=source)) == []
