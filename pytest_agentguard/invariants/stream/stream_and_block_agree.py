"""The same reply, streamed or as one body, is a success in both forms or a failure in both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ReplyStarted, RunEnded, RunStarted, Witness

_MODES = ("stream", "block")
_SHOWS_NOTHING = ("cancelled", "killed")


def check(ledger: Ledger) -> Iterator[Finding]:
    """Compared are the claims, and whether they are true.

    A real success after a retry is no disagreement with a failure that the caller hears of; it is one with a
    success that is none.
    """
    lanes = ledger.by_lane()
    parts = [lanes[mode] for mode in _MODES if mode in lanes]
    ends = [part.end for part in parts]
    if len(parts) < 2 or any(end is None or end.how in _SHOWS_NOTHING for end in ends):
        return
    results = [_result(part) for part in parts]
    if (False, False) in results and any(
        r == (True, True) and _recovered(p) for r, p in zip(results, parts, strict=True)
    ):
        return
    shown = [end for end in ends if end is not None]
    yield exercised(*shown)
    if results[0] != results[1]:
        facts = ", ".join(
            f"{mode}: how={end.how} real={real}"
            for mode, end, (_, real) in zip(_MODES, shown, results, strict=True)
        )
        yield violated(facts, *shown)


def _result(part: Ledger) -> tuple[bool, bool]:
    """Whether the run claims success, and whether its answer is the real one."""
    end = part.end
    claimed = end is not None and end.how == "returned"
    return claimed, claimed and end is not None and reading.answers_truly(part, end)


def _recovered(part: Ledger) -> bool:
    """Whether the run got a faulty reply and another one after it."""
    return any(reply.fault for reply in part.of(ReplyStarted)[:-1])


def _lane(
    mode: str, how: str, answer: str | None, fault: str = ""
) -> list[RunStarted | ReplyStarted | RunEnded]:
    return [
        RunStarted(witness=Witness.RUNNER, lane=mode, final="final-n9", mode=mode),
        ReplyStarted(witness=Witness.ENDPOINT, lane=mode, stream="s1", request="r1", mode=mode, fault=fault),
        RunEnded(witness=Witness.RUNNER, lane=mode, how=how, answer=answer),
    ]


_AGAIN = ReplyStarted(witness=Witness.ENDPOINT, lane="block", stream="s2", request="r2", mode="block")
_SUCCESS = _lane("stream", "returned", "final-n9")
_FAILURE = _lane("stream", "raised", None, "cut")
_RETRIED = _lane("block", "returned", "final-n9", "cut")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why="Streaming is a way to deliver an answer; it must not decide whether there is one.",
    source="wire facts §4.3 (streams and non-stream calls of the same clients)",
    remedy="Check completion, errors and arguments in one place, behind both forms.",
    occasion="the same logical reply was given in both forms, and both runs ended by themselves",
    holds=[
        Ledger([*_SUCCESS, *_lane("block", "returned", "final-n9")]),
        Ledger([*_FAILURE, *_lane("block", "raised", None, "cut")]),
    ],
    breaks=[
        Ledger([*_SUCCESS, *_lane("block", "raised", None)]),
        Ledger([*_FAILURE, *_lane("block", "returned", "half", "cut")]),
        Ledger([*_SUCCESS, *_lane("block", "returned", "half")]),
        Ledger([*_lane("stream", "returned", "half", "cut"), *_RETRIED[:2], _AGAIN, *_RETRIED[2:]]),
    ],
    silent=[Ledger([*_FAILURE, *_RETRIED[:2], _AGAIN, *_RETRIED[2:]])],
    idle=[
        Ledger(),
        Ledger(_SUCCESS),
        Ledger([*_SUCCESS, *[replace(e, how="killed") if isinstance(e, RunEnded) else e for e in _RETRIED]]),
    ],
    across_lanes=True,
)
