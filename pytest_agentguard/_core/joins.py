"""Joins what the tool spy saw to what the endpoint offered.

A spy sees only arguments. A start belongs to the offered call whose nonce its arguments contain; else to the
offered calls of the same tool; else, where the arguments still carry a nonce, to the call that owns it. Where
several calls fit and they differ in whether they were complete, nothing can be said: the start gets
``stream="?"`` and the run is invalid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pytest_agentguard._core.events import CallOffered, Event, StreamEnded, ToolStarted
from pytest_agentguard._core.journal import ready


def join(events: Sequence[Event]) -> list[Event]:
    """The same events, each tool start with the stream and call that it belongs to.

    An offer is recorded before its first byte leaves, so a start belongs to an earlier one.
    """
    complete = {e.stream: e.complete for e in events if isinstance(e, StreamEnded)}
    offers: dict[str, list[CallOffered]] = {}  # by lane
    taken: dict[tuple[str, str], int] = {}
    joined: list[Event] = []
    for event in events:
        if isinstance(event, CallOffered):
            offers.setdefault(event.lane, []).append(event)
        elif isinstance(event, ToolStarted) and not event.stream:
            event = _joined(event, offers.get(event.lane, []), complete, taken)
        joined.append(event)
    return joined


def _joined(
    start: ToolStarted,
    offers: list[CallOffered],
    complete: dict[str, bool],
    taken: dict[tuple[str, str], int],
) -> ToolStarted:
    fits = _candidates(start, offers)
    if not fits:
        return start
    if len({complete.get(o.stream) for o in fits}) > 1:
        return replace(start, stream="?", call="?")
    # the same call offered several times over: the one with the fewest starts so far
    chosen = min(fits, key=lambda o: (taken.get((o.stream, o.call), 0), o.seq))
    taken[chosen.stream, chosen.call] = taken.get((chosen.stream, chosen.call), 0) + 1
    return replace(start, stream=chosen.stream, call=chosen.call)


def _candidates(start: ToolStarted, offers: list[CallOffered]) -> list[CallOffered]:
    text = json.dumps(ready(start.arguments), ensure_ascii=False, default=repr)
    named = [o for o in offers if o.tool == start.tool]
    by_nonce = [o for o in offers if o.nonce and o.nonce in text]
    if by_nonce:
        return [o for o in by_nonce if o.tool == start.tool] or by_nonce
    exact = [o for o in named if _same(o.arguments, start.arguments)]
    return exact or named


def _same(raw: str, arguments: dict[str, object]) -> bool:
    try:
        return bool(json.loads(raw) == arguments)
    except ValueError:
        return False
