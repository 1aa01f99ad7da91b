"""What is wrong with a scenario, as far as it can be seen before anything runs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from pytest_agentguard._core.contracts import MODES, SURFACES
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import AgentguardError, nearest, unknown_name
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.scenario import FetchScript, Lane, Scenario, Setup
from pytest_agentguard._core.script import NONCE
from pytest_agentguard._core.turn import ToolCall

LANES_LOOKED_AT = 25  # of a sweep, from its whole length
ID_LENGTH = 32  # characters, since the id is part of every test id
FINAL = "final-knonce1"

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PLAYS = ("script", "vary", "lanes", "fetch")
_MAKES_UP_TOOLS = "unknown-tool-is-an-error"  # the rule whose scenarios call what was not offered


def flaws(scenario: Scenario, dialects: Sequence[Dialect], invariants: Collection[str]) -> list[str]:
    """Every problem in words; empty where there is none."""
    problems = [*_described(scenario), *_named(scenario, dialects, invariants), *_scripted(scenario)]
    return problems or list(dict.fromkeys(_planned(scenario, dialects)))


# -- its words --------------------------------------------------------------------------------------


def _described(scenario: Scenario) -> Iterator[str]:
    for name in ("id", "summary", "hint"):
        if not getattr(scenario, name).strip():
            yield f"{name} is empty"
    if scenario.id.strip() and not _ID.fullmatch(scenario.id):
        yield f"id {scenario.id!r} is not of small letters and digits with single dashes between them"
    if len(scenario.id) > ID_LENGTH:
        yield f"id has characters={len(scenario.id)} allowed={ID_LENGTH}"
    for name in ("summary", "hint"):
        text = getattr(scenario, name).strip()
        if text and not text.endswith("."):
            yield f"{name} does not end with a full stop"
    if not (scenario.invariants or scenario.control):
        yield "invariants is empty"


def _named(scenario: Scenario, dialects: Sequence[Dialect], invariants: Collection[str]) -> Iterator[str]:
    """Names that do not exist."""
    ids = [dialect.id for dialect in dialects]
    named: tuple[tuple[str, str, Any, Collection[str]], ...] = (
        ("invariants", "invariant", scenario.invariants, invariants),
        ("dialects", "dialect", scenario.dialects, ids),
        ("modes", "mode", scenario.modes, (*MODES, "both")),
        ("surface", "surface", (scenario.surface,), SURFACES),
    )
    for field, kind, values, known in named:
        if isinstance(values, str):
            yield f"{field} is a text, not a tuple of names"
            continue
        yield from (str(unknown_name(kind, value, known)) for value in values if value not in known)


def _scripted(scenario: Scenario) -> Iterator[str]:
    given = [name for name in _PLAYS if getattr(scenario, name) is not None]
    if len(given) != 1:
        yield f"exactly one of {', '.join(_PLAYS[:-1])} and fetch is needed, not {', '.join(given) or 'none'}"
    if bool(scenario.variants) != (scenario.vary is not None):
        yield "variants and vary go together"
    if scenario.together and scenario.lanes is None:
        yield "together needs lanes"
    if (scenario.surface == "fetch") != (scenario.fetch is not None):
        yield "the surface fetch and fetch= go together"
    if scenario.fetch is not None:
        yield from _fetched(scenario.fetch)


def _fetched(script: FetchScript) -> Iterator[str]:
    """What does not fit together of the routes, the list of what is allowed, and the calls."""
    if not script.calls:
        yield "fetch has no calls"
    paths = [route.path for route in script.routes]
    for id, path in script.allowed.items():
        if path.partition("?")[0] not in paths:
            yield f"fetch allows {id!r} and has no route {path!r}{nearest(path, paths)}"
    for call in script.calls:
        if call.allowed != (call.input in script.allowed):
            listed = "not among" if call.allowed else "among"
            yield f"fetch calls {call.input!r} with allowed={call.allowed}, which is {listed} the allowed ids"


# -- its replies --------------------------------------------------------------------------------------


def _planned(scenario: Scenario, dialects: Sequence[Dialect]) -> Iterator[str]:
    covered = False
    for dialect in dialects:
        for mode in (*MODES, "both"):
            if scenario.covers(dialect.id, mode):
                covered = True
                yield from _plays(scenario, dialect, mode)
    if not covered:
        yield "exists in none of the dialects and modes"


def _plays(scenario: Scenario, dialect: Dialect, mode: str) -> Iterator[str]:
    try:
        runs = list(_runs(scenario, dialect, mode))
    except Exception as problem:  # whatever a script of somebody else raises
        yield f"{dialect.id} {mode}: the script raises {type(problem).__name__}: {problem}"
        return
    for label, own, replies in runs:
        where = f"{dialect.id} {own} {label}".strip()
        wrong = _no_replies(replies)
        yield from (f"{where}: {problem}" for problem in wrong or _run(scenario, dialect, own, replies))
    if not any(_no_replies(replies) for *_, replies in runs):
        yield from _without_final(dialect, mode, [reply for *_, replies in runs for reply in replies])


def _no_replies(replies: Any) -> list[str]:
    """Why this is no list of replies."""
    if isinstance(replies, Reply):
        return ["a bare Reply, not a list of replies"]
    if not isinstance(replies, list | tuple):
        return [f"a {type(replies).__name__}, not a list of replies"]
    wrong = [f"reply {n} is a {type(r).__name__}" for n, r in enumerate(replies) if not isinstance(r, Reply)]
    return wrong or ([] if replies else ["no replies"])


def _run(scenario: Scenario, dialect: Dialect, mode: str, replies: Sequence[Reply]) -> Iterator[str]:
    for n, reply in enumerate(replies):
        yield from (f"reply {n}: {problem}" for problem in _called(scenario, reply))
        try:
            planned = plan(reply, _setting(scenario, dialect, mode))
        except AgentguardError as problem:
            yield f"reply {n}: {problem}"
            continue
        if not planned.delivered(planned.last).fired:
            yield f"reply {n}: its fault lies behind its last byte"


def _called(scenario: Scenario, reply: Reply) -> Iterator[str]:
    """Calls that do not fit the tools, or whose start could not be joined to them."""
    for call in reply.turn.calls:
        offered = {tool.name: tool.parameters for tool in scenario.tools}
        if call.tool not in offered:
            if _MAKES_UP_TOOLS not in scenario.invariants:
                yield f"call of unknown tool {call.tool!r}{nearest(call.tool, offered)}"
            continue
        arguments = _arguments(call)
        if not call.problem and arguments is not None:
            known = offered[call.tool].get("properties", {})
            for name in arguments:
                if name not in known:
                    yield f"call of {call.tool} with unknown argument {name!r}{nearest(name, known)}"
        if arguments and not call.problem and NONCE not in call.arguments:
            yield f"call of {call.tool} without {NONCE} in a value, so that its start joins no offer"


def _arguments(call: ToolCall) -> dict[str, Any] | None:
    """The arguments where they are a JSON object."""
    try:
        found = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_final(dialect: Dialect, mode: str, replies: Sequence[Reply]) -> Iterator[str]:
    """No reply has the final answer although there is one that could be answered with."""
    answers = [r for r in replies if not (r.fault or r.http or r.turn.calls) and r.turn.finish == "stop"]
    if answers and not any(FINAL in reply.turn.text for reply in replies):
        yield f"{dialect.id} {mode}: no reply has setup.final, so that no answer is known to be real"


# -- its runs -----------------------------------------------------------------------------------------


def _runs(scenario: Scenario, dialect: Dialect, mode: str) -> Iterator[tuple[str, str, Any]]:
    """(label, mode, replies) of every run or lane; the replies are whatever a script gave."""
    plain = "stream" if mode == "both" else mode
    if scenario.vary is not None:
        for variant in scenario.variants:
            own = variant.mode or plain
            yield variant.label, own, scenario.vary(_setup(scenario, dialect, own), variant)
    elif scenario.lanes is not None:
        lanes = _lanes(scenario.lanes(_setup(scenario, dialect, plain)))
        for lane in lanes[:: max(1, len(lanes) // LANES_LOOKED_AT)]:
            yield lane.label, plain, lane.replies
    elif scenario.script is not None:
        yield "", plain, scenario.script(_setup(scenario, dialect, plain))


def _lanes(given: Iterable[Any]) -> list[Lane]:
    lanes = list(given)
    wrong = [lane for lane in lanes if not isinstance(lane, Lane)]
    if wrong or not lanes:
        raise TypeError(f"lanes gives lanes, not {type(wrong[0]).__name__ if wrong else 'nothing'}")
    return lanes


def _setting(scenario: Scenario, dialect: Dialect, mode: str) -> Setting:
    return Setting(dialect, mode, CountedIds("0"), strict=scenario.strict)


def _setup(scenario: Scenario, dialect: Dialect, mode: str) -> Setup:
    return Setup(
        dialect=dialect,
        mode=mode,
        final=FINAL,
        strict=scenario.strict,
        measure=lambda reply: plan(reply, _setting(scenario, dialect, mode)),
        elsewhere="http://127.0.0.1:1" if scenario.elsewhere else "",
    )
