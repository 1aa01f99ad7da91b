"""Conformance checks for extensions: each gives a list of problems, empty where all is well."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agentguard._core.contracts import MODES
from pytest_agentguard._core.dialect import ERROR_STATUS, Dialect, Sample
from pytest_agentguard._core.errors import AgentguardError
from pytest_agentguard._core.events import ErrorSent, Event
from pytest_agentguard._core.fault import Fault, Seen
from pytest_agentguard._core.flaws import flaws
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.plan import End, Plan
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._core.scenario import Scenario
from pytest_agentguard._core.sse import Decoder
from pytest_agentguard._core.turn import FINISHES
from pytest_agentguard._core.verdict import Invariant, Outcome, judge

EXAMPLE_DISTANCE = 4  # events between an example that breaks a rule and the nearest that does not

_EXPECTED: Mapping[str, tuple[Outcome, ...]] = {
    "holds": (Outcome.HELD,),
    "breaks": (Outcome.VIOLATED,),
    "silent": (Outcome.HELD, Outcome.NOT_EXERCISED),
    "idle": (Outcome.NOT_EXERCISED,),
}

_SOURCE = re.compile(r"https://\S+|wire facts §\d|requirements? [A-Z]\d\d|known defects? \d")
_SOURCES = "https://…, wire facts §N, requirement XNN, known defect N"


# -- invariants ---------------------------------------------------------------------------------------


def check_invariant(rule: Invariant) -> list[str]:
    """What is wrong with a rule and its proof: documentation, examples, verdicts, distances, evidence."""
    return [*_documented(rule), *_proved(rule), *_close(rule), *_evident(rule)]


def _documented(rule: Invariant) -> Iterator[str]:
    for name in ("why", "source", "remedy", "occasion"):
        if not getattr(rule, name).strip():
            yield f"{name} is empty"
    for part in rule.source.split(";") if rule.source.strip() else ():
        if not _SOURCE.match(part.strip()):
            yield f"source {part.strip()!r} is none of {_SOURCES}"
    for name in ("why", "remedy"):
        if not getattr(rule, name).strip().endswith("."):
            yield f"{name} does not end with a full stop"


def _proved(rule: Invariant) -> Iterator[str]:
    for name, allowed in _EXPECTED.items():
        examples: Sequence[Ledger] = getattr(rule, name)
        if not examples:
            yield f"{name} has no ledger"
        for n, ledger in enumerate(examples):
            verdict = judge(ledger, rule)
            if verdict.outcome not in allowed:
                yield f"{name}[{n}] is {verdict.outcome}, expected {' or '.join(allowed)}: {verdict.summary}"
            elif judge(ledger, rule) != verdict:
                yield f"{name}[{n}] is judged differently the second time"


def _close(rule: Invariant) -> Iterator[str]:
    good = [list(ledger) for ledger in (*rule.holds, *rule.silent)]
    for n, ledger in enumerate(rule.breaks):
        nearest = min((_distance(list(ledger), other) for other in good), default=0)
        if nearest > EXAMPLE_DISTANCE:
            yield f"breaks[{n}] is far from every good example: events={nearest} allowed={EXAMPLE_DISTANCE}"


def _distance(events: Sequence[Event], others: Sequence[Event]) -> int:
    """How many events are in one of the two only; the order does not count."""
    left, alone = list(others), 0
    for event in events:
        if event in left:
            left.remove(event)
        else:
            alone += 1
    return alone + len(left)


def _evident(rule: Invariant) -> Iterator[str]:
    for n, ledger in enumerate(rule.breaks):
        verdict = judge(ledger, rule)
        if verdict.outcome is not Outcome.VIOLATED:
            continue
        if "=" not in verdict.summary:
            yield f"breaks[{n}] has a summary without a fact as name=value: {verdict.summary!r}"
        if not verdict.evidence:
            yield f"breaks[{n}] has no evidence"
        if list(verdict.evidence) != sorted(verdict.evidence, key=lambda event: event.seq):
            yield f"breaks[{n}] has evidence out of order"


# -- dialects -----------------------------------------------------------------------------------------


def check_dialect(dialect: Dialect) -> list[str]:
    """What is wrong with a dialect: its tables, samples, marks of its bytes, errors and readers."""
    return [
        *_tables(dialect),
        *_samples(dialect),
        *(problem for mode in MODES for problem in _encoding(dialect, mode)),
        *_answers(dialect),
        *_reading(dialect),
    ]


def _tables(dialect: Dialect) -> Iterator[str]:
    if not dialect.paths or not all(path.startswith("/") for path in (*dialect.paths, dialect.models_path)):
        yield "paths and models_path start with a slash, and there is at least one path"
    for name, values, wanted in (
        ("finishes", dialect.finishes, FINISHES),
        ("statuses", dialect.statuses, tuple(ERROR_STATUS)),
    ):
        missing = [key for key in wanted if key not in values]
        if missing:
            yield f"{name} lacks {', '.join(missing)}"
    wrong = [value for value in dialect.environment.values() if value not in ("base_url", "api_key")]
    if wrong:
        yield f"environment maps to base_url or api_key, not {', '.join(wrong)}"
    if not dialect.samples:
        yield "samples is empty"


class _SampleIds:
    """The ids of documented examples."""

    def response(self) -> str:
        return "1"

    def call(self) -> str:
        return "a"

    def nonce(self) -> str:
        return "knonce1"


def _samples(dialect: Dialect) -> Iterator[str]:
    for n, sample in enumerate(dialect.samples):
        frames = dialect.encode(sample.turn, sample.mode, _SampleIds())
        events = _events(dialect, sample, b"".join(frame.data for frame in frames))
        if events != list(sample.events):
            first = next(
                (k for k, (a, b) in enumerate(zip(events, sample.events, strict=False)) if a != b),
                min(len(events), len(sample.events)),
            )
            yield f"samples[{n}] differs from the encoded turn from event {first} on"


def _events(dialect: Dialect, sample: Sample, data: bytes) -> list[Any]:
    if sample.mode != "stream":
        return [json.loads(data)]
    if dialect.content_type == "text/event-stream":
        return [_value(event.data) for event in Decoder().feed(data)]
    return [_value(line) for line in data.decode().splitlines() if line]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_REPLIES: Mapping[str, Reply] = {
    "text": Reply().text("Grüße, ", "Welt"),
    "one call": Reply().call("f", x="{nonce}"),
    "no arguments": Reply().call("f"),
    "text and call": Reply().text("Let me look.").call("f", x="{nonce}", y=[1, None]),
    "two calls": Reply().call("f", x="{nonce}").call("g", y="{nonce}"),
    "two calls, alternating": Reply().call("f", x="{nonce}").call("g", y="{nonce}").interleave(),
    "output limit": Reply().text("half").finish("length"),
    "usage": Reply().text("hi").usage(),
}


def _encoding(dialect: Dialect, mode: str) -> Iterator[str]:
    for name, reply in _REPLIES.items():
        for strict in (False, True):
            where = f"{name}, {mode}{', strict' if strict else ''}"
            try:
                planned = plan(reply, Setting(dialect, mode, CountedIds("0"), strict=strict))
            except AgentguardError as problem:
                yield f"{where}: {problem}"
            else:
                yield from (f"{where}: {problem}" for problem in _marked(reply, planned))


def _marked(reply: Reply, planned: Plan) -> Iterator[str]:
    """Problems with the marks of a healthy reply: what it means that so many bytes have left."""
    calls = tuple(f"s1.{call.key}" for call in reply.turn.calls)
    size = len(planned.body)
    end = planned.delivered(size)
    for what in ("finish-starts", "finish", "marker"):
        count = sum(mark.what == what for mark in planned.marks)
        if count != 1:
            yield f"marks {what}={count} expected=1"
    if set(end.begun) != set(calls) or set(end.whole) != set(calls):
        yield f"begun={sorted(end.begun)} whole={sorted(end.whole)} expected={sorted(calls)}"
    if not end.complete or end.text != reply.turn.text:
        yield f"complete={end.complete} text={end.text!r} expected={reply.turn.text!r}"
    so_far = planned.delivered(0)
    if so_far.complete or so_far.begun or so_far.whole:
        yield "something counts as delivered before the first byte"
    for n in range(1, size + 1):
        now = planned.delivered(n)
        if not set(so_far.whole) <= set(now.whole) <= set(now.begun) or so_far.complete > now.complete:
            yield f"marks go back, or a call is whole before it has begun, at byte {n}"
            return
        so_far = now


def _answers(dialect: Dialect) -> Iterator[str]:
    message = "message-4711"
    if message.encode() not in dialect.error_body(503, "overloaded", message):
        yield "error_body lacks the message"
    if message.encode() not in dialect.error_event("overloaded", message):
        yield "error_event lacks the message"
    if b"model-4711" not in dialect.models(["model-4711"]):
        yield "models lacks the name of a model"


_ODD: Sequence[Mapping[str, Any]] = (
    {},
    {"stream": None, "messages": None, "tools": None, "input": None, "contents": None, "model": None},
    {"stream": 1, "messages": "text", "tools": {}, "input": 3, "contents": "text", "model": 7},
    {
        "messages": [None, 1, "text", {}, []],
        "tools": [None, 1, {}, []],
        "input": [None, {}],
        "contents": [{}],
    },
    {"messages": [{"role": "tool", "content": None}, {"role": "assistant", "tool_calls": [None, {}]}]},
    {"messages": [{"role": "user", "content": [None, {}, {"type": "tool_result"}]}], "unknown": {"x": 1}},
)


def _reading(dialect: Dialect) -> Iterator[str]:
    for n, body in enumerate(_ODD):
        try:
            dialect.read(dialect.paths[0] if dialect.paths else "", body)
        except Exception as problem:  # whatever it is, a request must not break the endpoint
            yield f"read raises {type(problem).__name__} on odd body {n}: {problem}"


# -- faults -------------------------------------------------------------------------------------------

_HEALTHY = Reply().text("Let me record that.").call("record", x="{nonce}-evidence")


def check_fault(fault: Fault, *, dialects: Iterable[Dialect]) -> list[str]:
    """What is wrong with a fault: it is pure, it fires, and what leaves is what a client is said to see."""
    try:
        once, again = fault.apply(_HEALTHY), fault.apply(_HEALTHY)
    except Exception as problem:  # whatever a fault of somebody else raises
        return [f"apply raises {type(problem).__name__}: {problem}"]
    if once != again:
        return ["apply gives another reply the second time"]
    if once == _HEALTHY:
        return ["apply changes nothing"]
    return [
        f"{dialect.id} {mode}: {problem}"
        for dialect in dialects
        for mode in fault.modes
        for problem in _spoiled(fault, dialect, mode)
    ]


def _spoiled(fault: Fault, dialect: Dialect, mode: str) -> Iterator[str]:
    try:
        healthy = plan(_HEALTHY, Setting(dialect, mode, CountedIds("0")))
        spoiled = plan(fault.apply(_HEALTHY), Setting(dialect, mode, CountedIds("0")))
    except AgentguardError as problem:
        yield str(problem)
        return
    if not spoiled.delivered(spoiled.last).fired:
        yield "the fault lies behind the last byte"
    facts = _facts(spoiled, healthy, dialect)
    for name, expected in _SEEN[fault.seen].items():
        if facts[name] is not expected:
            yield f"seen={fault.seen} and {name}={facts[name]} expected={expected}"


def _facts(spoiled: Plan, healthy: Plan, dialect: Dialect) -> Mapping[str, bool]:
    """What leaves: is it complete, are its calls permitted, does more come, whose bytes are they."""
    sent = spoiled.body[: spoiled.last]
    return {
        "complete": spoiled.delivered(spoiled.last).complete,
        "permits_calls": any(note.fields.get("permits") is True for _, note in spoiled.notes),
        "has_error": any(note.kind is ErrorSent for _, note in spoiled.notes),
        "is_silent": spoiled.end is End.STALLED,
        "is_part": healthy.body.startswith(sent),
        "is_whole": sent.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == healthy.body,
        "is_empty": sent in (b"", dialect.done),
        "is_200": spoiled.status == 200,
    }


_CUT = {"complete": False, "has_error": False, "is_whole": False, "is_200": True}
_OTHER = {"complete": False, "is_part": False, "is_empty": False, "is_silent": False, "is_200": True}
_SEEN: Mapping[Seen, Mapping[str, bool]] = {
    Seen.WHOLE: {"complete": True, "permits_calls": True, "is_whole": True, "is_200": True},
    Seen.INCOMPLETE: {**_CUT, "is_silent": False, "is_part": True},
    Seen.SILENT: {**_CUT, "is_silent": True},
    Seen.WITHDRAWN: {"complete": True, "permits_calls": False, "has_error": False, "is_200": True},
    Seen.ERROR: {"has_error": True, "permits_calls": False, "is_silent": False},
    Seen.EMPTY: {"is_empty": True, "has_error": False, "is_silent": False, "is_200": True},
    Seen.FOREIGN: _OTHER,
}


# -- scenarios ----------------------------------------------------------------------------------------


def check_scenario(
    scenario: Scenario, *, dialects: Iterable[Dialect], invariants: Collection[str]
) -> list[str]:
    """What is wrong with a scenario: its words, its rules, its replies in every dialect and mode it covers.

    Of a long sweep, lanes from its whole length are looked at. Whatever its script raises is a problem too.
    """
    return flaws(scenario, list(dialects), invariants)
