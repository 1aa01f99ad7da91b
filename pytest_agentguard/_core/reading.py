"""Questions that many rules ask of a ledger, answered in one place."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from pytest_agentguard._core.events import (
    CallOffered,
    ClientClosed,
    Event,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    ToolRaised,
)
from pytest_agentguard._core.ledger import Ledger

_seq = attrgetter("seq")
_SHOWN = 120  # characters of one value in a summary
_OWN_ENDS = ("clean", "cut", "reset", "stalled")
# what a spy notes of a value that JSON cannot hold: Path('/srv'), date(2026, 1, 1), <Color.RED: 'red'>
_TYPED = re.compile(r"[A-Za-z_][\w.]*\(.*\)|<[A-Za-z_][\w.]*: .+>", re.DOTALL)


# -- values -----------------------------------------------------------------------------------------


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that ``text`` is by a strict parser, without NaN; None for anything else."""
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse)
_TEXT = json.JSONEncoder(ensure_ascii=False, default=repr, skipkeys=True)


def text_of(value: Any) -> str:
    """A value as JSON text, for looking things up in it; what JSON cannot hold is given by its ``repr``."""
    return _TEXT.encode(value)


def brief(value: Any) -> str:
    """A value as JSON for a summary, cut where it is long."""
    text = text_of(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


# -- runs -------------------------------------------------------------------------------------------


def run_of(ledger: Ledger, event: Event) -> RunStarted | None:
    """The run that ``event`` belongs to: the last one that had started by then, else the first."""
    starts = ledger.of(RunStarted)
    before = bisect_left(starts, event.seq, key=_seq)
    return starts[before - 1] if starts else None  # without one before it, that is the last of all


def outcome_of(ledger: Ledger, event: Event) -> RunEnded | None:
    """How the run that ``event`` belongs to ended; None where that was not witnessed."""
    return ledger.first_after(event, RunEnded)


def limit_of(ledger: Ledger, event: Event, name: str) -> float | None:
    """A limit that the run of ``event`` declares, in its own unit."""
    run = run_of(ledger, event)
    value = run.limits.get(name) if run is not None else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def answers_truly(ledger: Ledger, outcome: RunEnded) -> bool:
    """Whether the answer carries the nonce of the real one; True where the run has no such nonce."""
    run = run_of(ledger, outcome)
    return run is None or run.final in (outcome.answer or "")


def is_healthy(ledger: Ledger) -> bool:
    """Whether nothing was made to go wrong: healthy replies, valid calls, no tool that raised."""
    return ledger.remembered(_is_healthy)


def _is_healthy(ledger: Ledger) -> bool:
    replies, offers = ledger.of(ReplyStarted), ledger.of(CallOffered)
    right = all(r.status == 200 and not r.fault and r.finish in ("stop", "tool_calls") for r in replies)
    valid = all(offer.known and not offer.problem for offer in offers)
    return bool(replies) and right and valid and not ledger.of(ToolRaised)


# -- replies ----------------------------------------------------------------------------------------


def reply_of(ledger: Ledger, event: StreamEnded | CallOffered | StreamHeld) -> ReplyStarted | None:
    """The reply that a fact about a stream belongs to."""
    return ledger.remembered(_replies).get(event.stream)


def _replies(ledger: Ledger) -> dict[str, ReplyStarted]:
    return {reply.stream: reply for reply in reversed(ledger.of(ReplyStarted))}  # the first one counts


def ended(ledger: Ledger) -> Iterator[tuple[StreamEnded, ReplyStarted | None]]:
    """Every stream that ended, with the reply that it delivered."""
    return iter(ledger.remembered(_ended))


def _ended(ledger: Ledger) -> tuple[tuple[StreamEnded, ReplyStarted | None], ...]:
    return tuple((end, reply_of(ledger, end)) for end in ledger.of(StreamEnded))


def broken_off(ledger: Ledger) -> Iterator[StreamEnded]:
    """Every stream that ended without its completion, and not because the client left a healthy one."""
    return iter(ledger.remembered(_broken_off))


def _broken_off(ledger: Ledger) -> tuple[StreamEnded, ...]:
    return tuple(end for end in ledger.of(StreamEnded, complete=False) if _is_broken_off(ledger, end))


def _is_broken_off(ledger: Ledger, end: StreamEnded) -> bool:
    if end.end in _OWN_ENDS:
        return True
    reply = reply_of(ledger, end)
    return end.end == "client-left" and end.fired and reply is not None and reply.fault != ""


def permitted_calls(ledger: Ledger) -> Iterator[tuple[CallOffered, StreamEnded]]:
    """Every call of a stream that was delivered to its marker and whose finish reason permits calls."""
    return iter(ledger.remembered(_permitted_calls))


def _permitted_calls(ledger: Ledger) -> tuple[tuple[CallOffered, StreamEnded], ...]:
    return tuple(
        (offer, end)
        for completed in ledger.of(StreamCompleted, permits=True)
        for end in ledger.of(StreamEnded, stream=completed.stream, complete=True)
        for offer in ledger.of(CallOffered, stream=end.stream)
    )


def false_success(ledger: Ledger, end: StreamEnded, *, itself: bool = False) -> RunEnded | None:
    """The end of a run that claims success although the turn that ``end`` spoiled was never completed.

    The turn is completed by a later reply that was delivered whole, and then the answer carries the nonce of
    the real one. ``itself`` counts the stream of ``end`` too, where that was complete.
    """
    begun = reply_of(ledger, end) or end
    outcome = outcome_of(ledger, begun)
    if outcome is None or outcome.how != "returned":
        return None
    completed = (itself and end.complete) or _is_completed(ledger, begun, outcome)
    return None if completed and answers_truly(ledger, outcome) else outcome


def _is_completed(ledger: Ledger, begun: Event, outcome: RunEnded) -> bool:
    """Whether a reply between the two was delivered whole."""
    whole = ledger.of(StreamEnded, complete=True)
    for at in range(bisect_right(whole, begun.seq, key=_seq), len(whole)):
        other = reply_of(ledger, whole[at]) or whole[at]
        if begun.seq < other.seq < outcome.seq:
            return True
    return False


# -- calls ------------------------------------------------------------------------------------------


def requests_after(ledger: Ledger, event: Event) -> Iterator[RequestReceived]:
    """Every model turn that was asked for after ``event`` and before the end of its run."""
    turns, outcome = ledger.of(RequestReceived, kind="turn"), outcome_of(ledger, event)
    first = bisect_right(turns, event.seq, key=_seq)
    end = len(turns) if outcome is None else bisect_left(turns, outcome.seq, first, key=_seq)
    return map(turns.__getitem__, range(first, end))


def asked_again(ledger: Ledger, request: RequestReceived) -> bool:
    """Whether the same was asked for once more in the run."""
    again = ledger.first_after(request, RequestReceived, kind="turn", body=request.body)
    outcome = outcome_of(ledger, request)
    return again is not None and (outcome is None or again.seq < outcome.seq)


def told(ledger: Ledger, offer: CallOffered) -> RequestReceived | None:
    """The first later request that mentions the call; any later one, where it has neither id nor nonce.

    An id that several calls of the stream share names none of them where only another one's nonce is told.
    """
    same = [o for o in ledger.of(CallOffered, stream=offer.stream) if o.call_id == offer.call_id]
    others = [o.nonce for o in same if o.nonce and o.nonce != offer.nonce]
    for request in requests_after(ledger, offer):
        if not (offer.call_id or offer.nonce) or (offer.nonce and _mentions(request, offer.nonce)):
            return request
        shared = offer.nonce and any(_mentions(request, nonce) for nonce in others)
        if offer.call_id and not shared and _mentions(request, offer.call_id):
            return request
    return None


def _mentions(request: RequestReceived, name: str) -> bool:
    return name in request.body or json.dumps(name)[1:-1] in request.body


def added_by(ledger: Ledger, offer: CallOffered, outcome: RunEnded) -> str:
    """The answer without what the model itself wrote beside the call: the words of the agent."""
    reply, answer = reply_of(ledger, offer), outcome.answer or ""
    return answer.replace(reply.text, " ") if reply is not None and reply.text else answer


def schema_of(ledger: Ledger, offer: CallOffered) -> Mapping[str, Any]:
    """The JSON schema of the parameters of the offered tool; empty where it is not known."""
    run = run_of(ledger, offer)
    schema = run.tools.get(offer.tool) if run is not None else None
    return schema if isinstance(schema, dict) else {}


def altered(offer: CallOffered, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The first difference between offered and real arguments as ``name=value``; empty where there is none.

    Defaults of the schema may be filled in or left out. Arguments that are no JSON object have no difference.
    """
    wanted = json_object(offer.arguments) if offer.arguments.strip() else {}
    if wanted is None:
        return ""
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else None
    for name, value in wanted.items():
        if name in arguments and not _same(value, arguments[name]):
            return f"{name}={brief(arguments[name])} offered={brief(value)}"
        if name not in arguments and not (known is not None and _is_default(known, name, value)):
            return f"{name} absent offered={brief(value)}"
    for name, value in arguments.items():
        if name not in wanted and known is not None and not _is_default(known, name, value):
            return f"{name}={brief(value)} offered=absent"
    return ""


def _is_default(properties: Mapping[str, Any], name: str, value: Any) -> bool:
    entry = properties.get(name)
    return isinstance(entry, dict) and _same(entry.get("default"), value)


def _same(offered: Any, real: Any) -> bool:
    """Whether two values are the same JSON; a real value that JSON cannot hold is taken on trust."""
    if isinstance(offered, bool) or isinstance(real, bool):
        return offered is real
    if isinstance(offered, dict) and isinstance(real, dict):
        return offered.keys() == real.keys() and all(_same(offered[n], real[n]) for n in offered)
    if isinstance(offered, list) and isinstance(real, list | tuple):
        return len(offered) == len(real) and all(map(_same, offered, real))
    return bool(offered == real) or (isinstance(real, str) and _TYPED.fullmatch(real) is not None)


# -- waits ------------------------------------------------------------------------------------------


def release_of(ledger: Ledger, held: StreamHeld) -> StreamReleased | None:
    """When and by whom a held response was let go."""
    return ledger.first_after(held, StreamReleased, stream=held.stream, hold=held.hold)


def attempt_end(ledger: Ledger, held: StreamHeld) -> Event | None:
    """The first sign that the agent gave up a held response by itself: it closed, went on, or ended the run.

    A run that was cancelled, or killed by the runner, shows nothing about the agent's own limits.
    """
    outcome = outcome_of(ledger, held)
    later = next(requests_after(ledger, held), None)
    if outcome is not None and outcome.how in ("cancelled", "killed"):
        return later
    closed = ledger.first_after(held, ClientClosed, stream=held.stream)
    signs = [sign for sign in (closed, later, outcome) if sign is not None]
    return min(signs, key=_seq, default=None)


def end_of_wait(ledger: Ledger, held: StreamHeld, limit: float, since: Event) -> Event | None:
    """The fact that settles a wait under ``limit`` seconds, counted from ``since``.

    A ``StreamReleased``, if the attempt was still waiting when the held response was let go at its own limit;
    else the sign that the agent had given up by itself; None, if nothing can be said. Order decides; the
    clock only tells that a response was let go too early to prove anything.
    """
    released, ended = release_of(ledger, held), attempt_end(ledger, held)
    if ended is not None and (released is None or ended.seq < released.seq):
        return ended
    if released is None or released.by != "limit" or 0 < released.t - since.t < limit:
        return None
    return released
