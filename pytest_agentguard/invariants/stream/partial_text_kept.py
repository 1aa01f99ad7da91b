"""Text that had arrived when a run was cancelled is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import RunEnded, RunStarted, StopRequested, StreamEnded, StreamHeld, Witness


def check(ledger: Ledger) -> Iterator[Finding]:
    """The first half of what left before the stop; the rest may not have been read by then."""
    for stop in reading.cancels(ledger):
        end = reading.end_of_run(ledger, stop)
        if end is None or end.kept is None:
            continue
        for held in ledger.before(stop, StreamHeld):
            for stream in ledger.after(held, StreamEnded, stream=held.stream):
                text = _words(stream.text_sent)
                if not text or stream.complete:
                    continue
                yield exercised(stream, stop, end)
                if text[: max(1, len(text) // 2)] not in _words(f"{end.kept} {end.answer or ''}"):
                    yield violated(
                        f"kept={reading.brief(end.kept)} sent={reading.brief(stream.text_sent)} "
                        f"stream={stream.stream}",
                        stop, end, stream,
                    )  # fmt: skip


def _words(text: str) -> str:
    return " ".join(text.split())


_JOB = RunStarted(witness=Witness.RUNNER)
_HELD = StreamHeld(witness=Witness.ENDPOINT, stream="s1", hold="h1", why="hold", sent=300)
_STOP = StopRequested(witness=Witness.RUNNER, at="body")
_LEFT = StreamEnded(
    witness=Witness.ENDPOINT,
    stream="s1",
    complete=False,
    end="client-left",
    text_sent="First, turn it off. Then",
)
_KEPT = RunEnded(witness=Witness.RUNNER, how="cancelled", kept="First, turn it off. Then")
_LOST = replace(_KEPT, kept="")

INVARIANT = Invariant(
    check,
    level=Level.MAY,
    why="Who stops an answer has often read enough of it; what was on its way is gone for good otherwise.",
    source="requirement A38",
    remedy="Collect the text outside of what is cancelled, and save it in a `finally`.",
    occasion="a cancel while an answer with text was on its way, and an agent that was asked what it kept",
    holds=[
        Ledger([_JOB, _HELD, _STOP, _KEPT, _LEFT]),
        Ledger([_JOB, _HELD, _STOP, replace(_KEPT, kept="First, turn it off."), _LEFT]),
    ],
    breaks=[
        Ledger([_JOB, _HELD, _STOP, _LOST, _LEFT]),
        Ledger([_JOB, _HELD, _LEFT, _STOP, _LOST]),
        Ledger([_JOB, _HELD, _STOP, replace(_KEPT, kept="First"), _LEFT]),
    ],
    silent=[
        Ledger([_JOB, _HELD, _STOP, replace(_LOST, answer="First, turn  it off."), _LEFT]),
        Ledger([_JOB, _HELD, _STOP, _LOST, replace(_LEFT, text_sent="")]),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _HELD, _STOP, replace(_KEPT, kept=None), _LEFT]),
        Ledger([_JOB, _STOP, _HELD, _LOST, _LEFT]),
        Ledger([_JOB, _HELD, _LOST, _LEFT]),
    ],
)
