"""The agent's memory does not grow with what an endless stream sends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, violated
from pytest_agentguard.events import MemoryMeasured, RunEnded, StreamEnded, Witness

_SMALL, _LARGE = "n", "8n"
# 8 n is at least 64 MiB, so who keeps what is sent grows by 56 MiB from n to 8 n. Allocators, and buffers
# that do not depend on the stream, differ by a few MiB from run to run; 24 MiB lies well clear of both.
_BOUND = 24 * 1024 * 1024


def check(ledger: Ledger) -> Iterator[Finding]:
    """Two runs, one with eight times as much; an agent that stops reading by itself has a bound."""
    lanes = ledger.by_lane()
    if _SMALL not in lanes or _LARGE not in lanes:
        return
    small, large = lanes[_SMALL], lanes[_LARGE]
    starved = _starved(large)
    if starved is not None and _starved(small) is None:
        yield exercised(starved)
        yield violated(f"run out of memory, sent={_sent(large)} in lane={_LARGE}", starved)
        return
    before, after = small.first(MemoryMeasured), large.first(MemoryMeasured)
    if before is None or after is None:
        return
    more = _sent(large) - _sent(small)
    stopped = _stopped(large)
    if more < _BOUND and not stopped:
        return
    yield exercised(before, after)
    grown = after.grown - before.grown
    if grown > _BOUND and more >= _BOUND and not stopped:
        yield violated(f"grown={grown} allowed={_BOUND} with sent={more} more", before, after)


def _sent(part: Ledger) -> int:
    return sum(end.sent for end in part.of(StreamEnded))


def _stopped(part: Ledger) -> bool:
    """Whether the agent left the stream by itself; a process that died or was killed did not."""
    end = part.end
    itself = end is None or end.how not in ("killed", "signalled", "exited")
    flood = max(part.of(StreamEnded), key=lambda stream: stream.sent, default=None)
    return itself and flood is not None and flood.end == "client-left"


def _starved(part: Ledger) -> RunEnded | None:
    end = part.end
    if end is None:
        return None
    names = (end.error_type or "", *end.error_chain)
    return end if any(name.rpartition(".")[2] == "MemoryError" for name in names) else None


def _lane(name: str, grown: int, sent: int) -> list[StreamEnded | MemoryMeasured | RunEnded]:
    mib = 1024 * 1024
    return [
        StreamEnded(witness=Witness.ENDPOINT, lane=name, stream="s1", complete=False, sent=sent * mib),
        RunEnded(witness=Witness.RUNNER, lane=name, how="raised", error="answer too long"),
        MemoryMeasured(witness=Witness.RUNNER, lane=name, grown=grown * mib, sent=sent * mib),
    ]


def _left(
    events: list[StreamEnded | MemoryMeasured | RunEnded],
) -> list[StreamEnded | MemoryMeasured | RunEnded]:
    return [replace(e, end="client-left") if isinstance(e, StreamEnded) else e for e in events]


def _out_of_memory(name: str) -> list[StreamEnded | MemoryMeasured | RunEnded]:
    events = _lane(name, 4, 64)
    return [replace(e, error_type="MemoryError") if isinstance(e, RunEnded) else e for e in events]


_SMALL_RUN = _lane("n", 2, 8)

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="Whoever keeps all that a provider sends can be ended by any provider that never stops.",
    source="requirements A24, D08",
    remedy="Put a bound on one event, on the text of one answer and on what is kept of the raw response.",
    occasion=(
        "one endless event, endless keep-alives or endless text, at n and at 8 n bytes, memory measured "
        "in both"
    ),
    holds=[Ledger([*_SMALL_RUN, *_lane("8n", 4, 64)])],
    breaks=[
        Ledger([*_SMALL_RUN, *_lane("8n", 70, 64)]),
        Ledger([*_SMALL_RUN, *_out_of_memory("8n")]),
    ],
    silent=[
        Ledger([*_SMALL_RUN, *_left(_lane("8n", 4, 10))]),
        Ledger([*_lane("n", 60, 8), *_lane("8n", 64, 64)]),
    ],
    idle=[
        Ledger(),
        Ledger(_SMALL_RUN),
        Ledger([*_SMALL_RUN, *_lane("8n", 70, 9)]),
    ],
    across_lanes=True,
)
