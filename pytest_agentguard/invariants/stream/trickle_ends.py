"""A response that never stops sending a little is given up within the declared deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ClientClosed, RunEnded, RunStarted, StreamHeld, StreamReleased, Witness


def check(ledger: Ledger) -> Iterator[Finding]:
    """An idle timeout never fires here: only a deadline over the whole can end it."""
    for held in ledger.of(StreamHeld, why="drip"):
        limit = reading.limit_of(ledger, held, "deadline")
        since = reading.run_of(ledger, held)
        shown = reading.end_of_wait(ledger, held, limit, since) if limit is not None and since else None
        if shown is None:
            continue
        yield exercised(held, shown)
        if isinstance(shown, StreamReleased):
            yield violated(
                f"run still reading at release, stream={held.stream} sent={held.sent} deadline={limit:g}",
                held, shown,
            )  # fmt: skip


_JOB = RunStarted(witness=Witness.RUNNER, limits={"deadline": 1.0})
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", why="drip", sent=40)
_CLOSED = ClientClosed(witness=Witness.ENDPOINT, stream="s1")
_RELEASED = StreamReleased(witness=Witness.ENDPOINT, stream="s1", hold="h1", by="limit")
_ENDED = RunEnded(witness=Witness.RUNNER, how="limited", error="deadline")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why=(
        "One keep-alive now and then resets every idle timeout, so a stuck provider, or a hostile one, "
        "holds the run for as long as it likes."
    ),
    source="wire facts §2 (E7); requirement D06",
    remedy="Put the run, or each exchange, under a deadline that bytes do not reset.",
    occasion="a body that goes on sending a little, under a declared deadline",
    holds=[
        Ledger([_JOB, _HELD, _CLOSED, _ENDED]),
        Ledger([_JOB, _HELD, _ENDED, replace(_RELEASED, by="run-ended")]),
    ],
    breaks=[
        Ledger([_JOB, _HELD, _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, _RELEASED, _CLOSED, _ENDED]),
        Ledger([_JOB, _HELD, _RELEASED]),
    ],
    silent=[
        Ledger([_JOB, _HELD, _CLOSED, _RELEASED, _ENDED]),
        Ledger([_JOB, _HELD, replace(_RELEASED, by="test"), _ENDED]),
        Ledger([replace(_JOB, t=1.0), _HELD, replace(_RELEASED, t=1.5)]),
    ],
    idle=[
        Ledger([replace(_JOB, limits={"idle_timeout": 1.0}), _HELD, _RELEASED, _ENDED]),
        Ledger([_JOB, replace(_HELD, why="stall"), _RELEASED, _ENDED]),
    ],
)
