"""A response that is held is given up within the declared timeout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    ClientClosed,
    FetchEnded,
    FetchStarted,
    HttpReceived,
    RequestReceived,
    RunEnded,
    RunStarted,
    StopRequested,
    StreamHeld,
    StreamReleased,
    Witness,
)

_LIMITS = {  # by how the response is held; a body that stalls under an idle timeout is for stall-ends
    "hold": ("idle_timeout", "request_timeout"),
    "stall": ("request_timeout",),
    "drip": ("request_timeout",),
}


def check(ledger: Ledger) -> Iterator[Finding]:
    """Judged by order: the attempt has to end before the held response is let go at its own, longer limit."""
    for held in ledger.of(StreamHeld):
        declared = reading.waits_under(ledger, held)
        limits = {name: declared[name] for name in _LIMITS.get(held.why, ()) if name in declared}
        if not limits:
            continue
        shown = reading.settled(ledger, held, min(limits.values()), held)
        if shown is None:
            continue
        yield exercised(held, shown)
        if isinstance(shown, StreamReleased):
            named = " ".join(f"{name}={limit:g}" for name, limit in limits.items())
            yield violated(
                f"attempt still waiting at release, stream={held.stream} why={held.why} {named}", held, shown
            )


_JOB = RunStarted(witness=Witness.RUNNER, limits={"request_timeout": 0.25})
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", why="hold")
_CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
_RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="limit")
_ENDED = RunEnded(witness=Witness.RUNNER, how="raised", error="timed out")
_NEXT = RequestReceived(witness=Witness.ENDPOINT, request="r2")
_STOP = StopRequested(witness=Witness.RUNNER, at="request")

_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="slow")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="s1", url="http://127.0.0.1:80/slow")
_FAILED = FetchEnded(witness=Witness.RUNNER, call="f1", how="raised", error="timed out")
_FETCH = [_JOB, _ASKED, _ARRIVED, replace(_HELD, witness=Witness.COUNTING_SERVER)]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="A server that accepts a request and never answers holds the call, and all that waits for it.",
    source="wire facts §4.2 (default timeouts); requirement B07",
    remedy=(
        "Put the whole exchange under the timeout, from the connect to the last byte; a timeout per read "
        "starts again with each byte."
    ),
    occasion="a response that was held, under a declared timeout that covers this wait",
    holds=[
        Ledger([_JOB, _HELD, _CLOSED, _ENDED]),
        Ledger([_JOB, _HELD, _ENDED, replace(_RELEASED, by="run-ended")]),
        Ledger([_JOB, _HELD, _NEXT, _RELEASED, _ENDED]),
        Ledger([*_FETCH, _FAILED, _RELEASED]),
    ],
    breaks=[
        Ledger([_JOB, _HELD, _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, _RELEASED, _CLOSED, _ENDED]),
        Ledger([_JOB, replace(_HELD, why="drip"), _RELEASED, _ENDED]),
        Ledger([*_FETCH, _RELEASED, _FAILED]),
    ],
    silent=[
        Ledger([_JOB, _HELD, _CLOSED, _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, replace(_RELEASED, by="test"), _ENDED]),
        Ledger([_JOB, replace(_HELD, t=1.0), replace(_RELEASED, t=1.2), _ENDED]),
        Ledger([_JOB, _HELD, _STOP, _RELEASED, _ENDED]),
    ],
    idle=[
        Ledger(),
        Ledger([replace(_JOB, limits={}), _HELD, _RELEASED, _ENDED]),
        Ledger([replace(_JOB, limits={"deadline": 1.0}), _HELD, _RELEASED, _ENDED]),
        Ledger([replace(_JOB, limits={"idle_timeout": 1.0}), replace(_HELD, why="stall"), _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, _STOP, _CLOSED, replace(_ENDED, error_type="KeyboardInterrupt")]),
    ],
)
