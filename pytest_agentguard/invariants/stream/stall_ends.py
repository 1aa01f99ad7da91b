"""A response that falls silent is given up within the declared idle timeout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    ClientClosed,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamHeld,
    StreamReleased,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Judged by order: the attempt has to end before the held response is let go at its own, longer limit."""
    for held in ledger.of(StreamHeld, why="stall"):
        limit = reading.limit_of(ledger, held, "idle_timeout")
        shown = reading.end_of_wait(ledger, held, limit, held) if limit is not None else None
        if shown is None:
            continue
        yield exercised(held, shown)
        if isinstance(shown, StreamReleased):
            yield violated(
                f"attempt still waiting at release, stream={held.stream} sent={held.sent} "
                f"idle_timeout={limit:g}",
                held, shown,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, limits={"idle_timeout": 0.5})
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", sent=40)
_CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
_RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="limit")
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="timed out")
_NEXT = RequestReceived(witness=Witness.ENDPOINT, request="r2")

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A provider that falls silent in mid-answer holds the agent for ever if only the headers have a "
        "timeout."
    ),
    source="wire facts §2 (E6), §4.2; requirement A17",
    remedy="Put every read of the body under the idle timeout, not only the wait for the headers.",
    occasion="a body that stopped after the first bytes, under a declared idle timeout",
    holds=[
        Ledger([_JOB, _HELD, _CLOSED, _ENDED]),
        Ledger([_JOB, _HELD, _ENDED, replace(_RELEASED, by="run-ended")]),
        Ledger([_JOB, _HELD, _NEXT, _RELEASED, _ENDED]),
    ],
    breaks=[
        Ledger([_JOB, _HELD, _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, _RELEASED, _CLOSED, _ENDED]),
        Ledger([_JOB, _HELD, _RELEASED]),
        Ledger([_JOB, _HELD, _RELEASED, _NEXT, _ENDED]),
    ],
    silent=[
        Ledger([_JOB, _HELD, _CLOSED, _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, replace(_RELEASED, by="test"), _ENDED]),
        Ledger([_JOB, replace(_HELD, t=1.0), replace(_RELEASED, t=1.2)]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={}), _HELD, _RELEASED, _ENDED]),
        Ledger([_JOB, replace(_HELD, why="hold"), _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, _CLOSED, replace(_ENDED, how="killed")]),
    ],
)
