"""Reads the control run: the same job with nothing wrong. What fails it proves nothing about faults."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_agentguard._core.events import (
    CallOffered,
    Event,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    RequestReceived,
    RunEnded,
    StreamEnded,
    ToolStarted,
)
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.verdict import unsound


@dataclass(frozen=True, slots=True)
class Control:
    """What the control run showed: a problem, that the agent speaks something else, or that all is well."""

    problem: str = ""
    uncovered: str = ""
    evidence: tuple[Event, ...] = ()


def read_control(ledger: Ledger, dialect: str, mode: str, *, plain: bool) -> Control:
    """The tool must have run exactly once with the exact arguments, and the final answer must have come.

    A ``plain`` function says nothing of dialects and modes; where all its requests were in another one,
    that is not a failure: this dialect or mode is not covered.
    """
    requests = ledger.of(RequestReceived, kind="turn")
    if plain and requests:
        spoken = {(r.dialect, r.mode) for r in requests}
        if all(d != dialect for d, _ in spoken):
            return Control(uncovered=f"{dialect} (the agent speaks {_names(d for d, _ in spoken)})")
        if all(m not in (mode, "") for _, m in spoken):  # none: a body that nobody can read
            return Control(uncovered=f"{mode} replies (the agent asks for {_names(m for _, m in spoken)})")
    reason = unsound(ledger)
    if reason is not None:
        return Control(problem=reason[0], evidence=reason[1:])
    if not requests:
        return Control(
            problem=f"requests=0 expected=2; the run {_ended(ledger.end)}", evidence=_some(ledger.end)
        )
    return _tool_problem(ledger, requests) or _end_problem(ledger) or _sound(ledger)


def read_fetch_control(ledger: Ledger) -> Control:
    """Every allowed use must have arrived exactly once and come back with what the server said."""
    reason = unsound(ledger)
    if reason is not None:
        return Control(problem=reason[0], evidence=reason[1:])
    uses, received = ledger.of(FetchStarted), ledger.of(HttpReceived)
    if not uses:
        return Control(problem=f"fetch calls=0; the run {_ended(ledger.end)}", evidence=_some(ledger.end))
    for end in ledger.of(FetchEnded):
        if end.how != "returned":
            detail = f"{end.error_type}: {end.error[:300]}" if end.error_type else end.error[:300]
            return Control(problem=f"an allowed fetch {end.how} {detail}".strip(), evidence=(*received, end))
    if len(received) != len(uses):
        problem = f"requests={len(received)} expected={len(uses)}"
        return Control(problem=problem, evidence=(*uses, *received))
    for answer, end in zip(ledger.of(HttpAnswered), ledger.of(FetchEnded), strict=False):
        if answer.failed or answer.nonce not in end.result:
            problem = "the result is not what the server answered"
            return Control(problem=problem, evidence=(answer, end))
    return Control(evidence=(*received, *ledger.of(FetchEnded)))


def _tool_problem(ledger: Ledger, requests: tuple[RequestReceived, ...]) -> Control | None:
    starts, offered = ledger.of(ToolStarted), ledger.first(CallOffered)
    if len(starts) != 1:
        problem = f"tool starts={len(starts)} expected=1; the run {_ended(ledger.end)}"
        return Control(problem=problem, evidence=(*requests, *starts, *_some(ledger.end)))
    if offered is None or not _exact(offered, starts[0]):
        problem = f"tool={starts[0].tool} ran with other arguments than offered"
        return Control(problem=problem, evidence=(*_some(offered), starts[0]))
    return None


def _end_problem(ledger: Ledger) -> Control | None:
    end, run = ledger.end, ledger.run
    if end is None or end.how != "returned" or run is None or run.final not in (end.answer or ""):
        return Control(
            problem=f"the final answer did not come back; the run {_ended(end)}", evidence=_some(end)
        )
    for stream in ledger.of(StreamEnded):
        if not stream.complete:
            problem = f"stream={stream.stream} complete=False in a run with nothing wrong"
            return Control(problem=problem, evidence=(stream,))
    return None


def _sound(ledger: Ledger) -> Control:
    return Control(evidence=(*ledger.of(ToolStarted), *_some(ledger.end)))


def _exact(offered: CallOffered, start: ToolStarted) -> bool:
    wanted = json.loads(offered.arguments)
    return start.tool == offered.tool and all(
        start.arguments.get(name) == value for name, value in wanted.items()
    )


def _ended(end: RunEnded | None) -> str:
    if end is None:
        return "did not end"
    if end.how == "returned":
        return f"returned {(end.answer or '')[:120]!r}"
    detail = f" {end.error_type}: {(end.error or '')[:300]}" if end.error_type else ""
    code = f" code={end.code}" if end.code is not None else ""
    return f"{end.how}{code}{detail}"


def _names(values: Iterable[str]) -> str:
    return ", ".join(sorted({value or "something else" for value in values}))


def _some(event: Event | None) -> tuple[Event, ...]:
    return () if event is None else (event,)
