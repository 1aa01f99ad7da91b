"""Once the completion marker has arrived, the next step does not wait for the connection to close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    Event,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    StreamHeld,
    StreamReleased,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Asking for the same turn again, or failing, is no next step: the marker had been sent."""
    for held in ledger.of(StreamHeld, why="keep-open"):
        outcome, released = reading.outcome_of(ledger, held), reading.release_of(ledger, held)
        step = _next_step(ledger, held, outcome)
        waited = released if released is not None and released.by == "limit" else _gave_up(outcome)
        if step is not None and (waited is None or step.seq < waited.seq):
            yield exercised(held, step)
        elif waited is not None:
            yield exercised(held, waited)
            how = "release" if isinstance(waited, StreamReleased) else f"end of run how={waited.how}"
            yield violated(f"no next step before {how}, stream={held.stream} marker sent", held, waited)


def _next_step(ledger: Ledger, held: StreamHeld, outcome: RunEnded | None) -> Event | None:
    reply = reading.reply_of(ledger, held)
    asked = ledger.first(RequestReceived, request=reply.request) if reply is not None else None
    body = asked.body if asked is not None else ""
    steps: list[Event] = [*ledger.of(ToolStarted, stream=held.stream)]
    others = (r for r in reading.requests_after(ledger, held) if not body or r.body != body)
    steps += islice(others, 1)
    if outcome is not None and outcome.how == "returned":
        steps.append(outcome)
    return min(steps, key=lambda event: event.seq, default=None)


def _gave_up(outcome: RunEnded | None) -> RunEnded | None:
    return outcome if outcome is not None and outcome.how in ("raised", "failed", "limited") else None


_ASKED = RequestReceived(witness=Witness.ENDPOINT, request="r1", body="{1}")
_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", fault="keep-open")
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", why="keep-open", sent=400)
_RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="limit")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="record", stream="s1", call="s1.c1")
_NEXT = RequestReceived(witness=Witness.ENDPOINT, request="r2", body="{1, 2}")
_AGAIN = replace(_NEXT, body="{1}")
_RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="final")
_RAISED = replace(_RETURNED, how="raised", answer=None, error="read timeout")
_FREED = replace(_RELEASED, by="run-ended")

INVARIANT = Invariant(
    check,
    level=Level.MAY,
    why=(
        "The answer is whole at its marker; who waits for the connection waits for nothing, or times out "
        "on it."
    ),
    source="wire facts §2 (E8), §4.4, §7 trap 7",
    remedy="Stop reading at the completion marker.",
    occasion="a whole reply, marker included, whose connection is kept open",
    holds=[
        Ledger([_ASKED, _REPLY, _HELD, _RUN, _RELEASED, _RETURNED]),
        Ledger([_ASKED, _REPLY, _HELD, _NEXT, _RELEASED, _RETURNED]),
        Ledger([_ASKED, _REPLY, _HELD, _RETURNED, _FREED]),
    ],
    breaks=[
        Ledger([_ASKED, _REPLY, _HELD, _RELEASED, _RUN, _RETURNED]),
        Ledger([_ASKED, _REPLY, _HELD, _RELEASED, _NEXT, _RETURNED]),
        Ledger([_ASKED, _REPLY, _HELD, _AGAIN, _RAISED, _FREED]),
        Ledger([_ASKED, _REPLY, _HELD, _RAISED, _FREED]),
    ],
    silent=[Ledger([_ASKED, _REPLY, _RUN, _HELD, _FREED, _RETURNED])],
    idle=[
        Ledger([_ASKED, _REPLY, replace(_HELD, why="stall"), _RELEASED, _RETURNED]),
        Ledger([_ASKED, _REPLY, _HELD, replace(_RETURNED, how="cancelled"), _FREED]),
    ],
)
