"""What a control run must show before anything else of an agent is believed."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agentguard import Ledger
from pytest_agentguard._runner.control import Control, read_control
from pytest_agentguard.events import (
    CallOffered,
    Event,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    ToolFinished,
    ToolStarted,
    Witness,
    WitnessFailed,
)

FINAL = "final-91c2"
ARGUMENTS = {"x": "k1-evidence"}


def request(number: int, dialect: str = "openai-chat", mode: str = "stream", kind: str = "turn") -> Event:
    name = f"r{number}"
    return RequestReceived(
        witness=Witness.ENDPOINT, request=name, turn=number, dialect=dialect, mode=mode, kind=kind
    )


def ended(stream: str = "s1", **fields: Any) -> Event:
    return StreamEnded(witness=Witness.ENDPOINT, stream=stream, **{"complete": True, **fields})


def tool(invocation: str = "t1", name: str = "record", **arguments: Any) -> Event:
    return ToolStarted(
        witness=Witness.TOOL_SPY, tool=name, invocation=invocation, arguments=arguments or ARGUMENTS
    )


def run_ended(**fields: Any) -> Event:
    return RunEnded(witness=Witness.RUNNER, **{"how": "returned", "answer": f"It is {FINAL}.", **fields})


STARTED = RunStarted(witness=Witness.RUNNER, final=FINAL, dialect="openai-chat", mode="stream")
OFFERED = CallOffered(
    witness=Witness.ENDPOINT,
    stream="s1",
    call="s1.c1",
    tool="record",
    arguments='{"x": "k1-evidence"}',
    nonce="k1",
)
FINISHED = ToolFinished(witness=Witness.TOOL_SPY, tool="record", invocation="t1")
HEALTHY = (STARTED, request(1), OFFERED, ended(), tool(), FINISHED, request(2), ended("s2"), run_ended())


def read(*events: Event, plain: bool = False, dialect: str = "openai-chat", mode: str = "stream") -> Control:
    return read_control(Ledger(events), dialect, mode, plain=plain)


def without(*left_out: Event) -> tuple[Event, ...]:
    return tuple(event for event in HEALTHY if event not in left_out)


def instead(old: Event, *new: Event) -> tuple[Event, ...]:
    place = HEALTHY.index(old)
    return (*HEALTHY[:place], *new, *HEALTHY[place + 1 :])


def test_one_tool_run_with_the_exact_arguments_and_the_final_answer_is_sound() -> None:
    found = read(*HEALTHY)
    assert (found.problem, found.uncovered) == ("", "")
    assert [type(event) for event in found.evidence] == [ToolStarted, RunEnded]


def test_optional_arguments_may_be_filled_in() -> None:
    assert read(*instead(tool(), tool(x="k1-evidence", y=""))).problem == ""


NO_REQUEST = "requests=0 expected=2; the run "
NO_ANSWER = "the final answer did not come back; the run "
OTHER = "ran with other arguments than offered"
ANSWERED = "; the run returned 'It is final-91c2.'"


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ((), f"{NO_REQUEST}did not end"),
        ((STARTED, run_ended(answer="ok")), f"{NO_REQUEST}returned 'ok'"),
        ((STARTED, request(1, kind="models"), run_ended(answer=None)), f"{NO_REQUEST}returned ''"),
        (
            (STARTED, run_ended(how="raised", error="no", error_type="ValueError")),
            f"{NO_REQUEST}raised ValueError: no",
        ),
        ((STARTED, run_ended(how="exited", code=3)), f"{NO_REQUEST}exited code=3"),
        ((STARTED, run_ended(how="killed")), f"{NO_REQUEST}killed"),
        (without(tool(), FINISHED), f"tool starts=0 expected=1{ANSWERED}"),
        (instead(tool(), tool(), tool("t2")), f"tool starts=2 expected=1{ANSWERED}"),
        (instead(tool(), tool(x="k1-evi")), f"tool=record {OTHER}"),
        (instead(tool(), tool(y="k1-evidence")), f"tool=record {OTHER}"),
        (instead(tool(), tool(name="purge", x="k1-evidence")), f"tool=purge {OTHER}"),
        (without(OFFERED), f"tool=record {OTHER}"),
        (instead(run_ended(), run_ended(answer="ok")), f"{NO_ANSWER}returned 'ok'"),
        (without(run_ended()), f"{NO_ANSWER}did not end"),
        (instead(run_ended(), run_ended(how="limited")), f"{NO_ANSWER}limited"),
        (
            instead(ended("s2"), ended("s2", complete=False)),
            "stream=s2 complete=False in a run with nothing wrong",
        ),
        ((*HEALTHY, WitnessFailed(witness=Witness.ENDPOINT, error="full")), "witness endpoint failed: full"),
    ],
)
def test_what_is_missing_is_named(events: tuple[Event, ...], problem: str) -> None:
    for plain in (False, True):
        found = read(*events, plain=plain)
        assert (found.problem, found.uncovered) == (problem, "")


def test_other_dialect_or_mode_of_a_plain_function_is_not_covered() -> None:
    spoken = (STARTED, request(1, "anthropic", "block"), run_ended(how="raised", answer=None))
    found = read(*spoken, plain=True)
    assert (found.problem, found.uncovered) == ("", "openai-chat (the agent speaks anthropic)")
    found = read(*spoken, plain=True, dialect="anthropic")
    assert (found.problem, found.uncovered) == ("", "stream replies (the agent asks for block)")


def test_body_that_nobody_can_read_is_no_other_mode() -> None:
    found = read(STARTED, request(1, mode=""), run_ended(answer="ok"), plain=True)
    assert (found.problem, found.uncovered) == ("tool starts=0 expected=1; the run returned 'ok'", "")


def test_other_dialect_or_mode_of_an_adapter_that_offered_it_is_a_problem() -> None:
    spoken = (STARTED, request(1, "anthropic", "block"), run_ended(answer="ok"))
    found = read(*spoken, plain=False)
    assert (found.problem, found.uncovered) == ("tool starts=0 expected=1; the run returned 'ok'", "")


def test_plain_function_that_speaks_several_dialects_is_held_to_the_one_it_was_asked_for() -> None:
    spoken = (STARTED, request(1, "anthropic"), request(2, "openai-chat"), run_ended(answer="ok"))
    found = read(*spoken, plain=True)
    assert found.uncovered == ""
    assert found.problem == "tool starts=0 expected=1; the run returned 'ok'"


def test_request_in_no_dialect_is_named_as_something_else() -> None:
    found = read(STARTED, request(1, ""), run_ended(answer="ok"), plain=True)
    assert found.uncovered == "openai-chat (the agent speaks something else)"
