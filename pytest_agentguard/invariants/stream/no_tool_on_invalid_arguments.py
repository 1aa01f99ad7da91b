"""A whole call whose arguments violate the tool's schema starts no tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import CallOffered, StreamCompleted, StreamEnded, ToolStarted, Witness

_LEVELS = {"invalid": Level.MUST, "extra": Level.MAY}


def check(ledger: Ledger) -> Iterator[Finding]:
    """An unknown extra member alone makes it a debatable practice."""
    for offer, end in reading.permitted_calls(ledger):
        level = _LEVELS.get(offer.problem)
        if level is None:
            continue
        yield exercised(offer, end)
        for start in ledger.of(ToolStarted, call=offer.call):
            yield violated(
                f"tool={start.tool} started, arguments={reading.brief(start.arguments)}, "
                f"offered={reading.brief(offer.arguments)} problem={offer.problem}",
                offer, end, start,
                level=level,
            )  # fmt: skip


_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay",
    arguments='{"to": "n1", "sum": NaN}', nonce="n1", problem="invalid",
)  # fmt: skip
_EXTRA = replace(_CALL, arguments='{"to": "n1", "sum": 1, "z": 0}', problem="extra")
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", arguments={"to": "n1", "sum": 1})

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "A schema is the tool's contract. NaN, a wrong type or a value outside an enumeration that gets "
        "through reaches code that was written without it in mind."
    ),
    source="wire facts §6 (arguments whole); requirement A41",
    remedy=(
        "Check arguments against the tool's schema before the tool starts, and report the violation to "
        "the model."
    ),
    occasion="a complete reply that permits its calls, with arguments that violate the schema of the tool",
    holds=[Ledger([_CALL, _MARKER, _END]), Ledger([_EXTRA, _MARKER, _END])],
    breaks=[
        Ledger([_CALL, _MARKER, _END, _RUN]),
        Ledger([_CALL, _MARKER, _END, replace(_RUN, arguments={"to": "n1", "sum": float("nan")})]),
        Ledger([_EXTRA, _MARKER, _END, _RUN]),
    ],
    silent=[Ledger([replace(_CALL, arguments='{"to": "n1", "sum": 1}', problem=""), _MARKER, _END, _RUN])],
    idle=[
        Ledger([_CALL, replace(_MARKER, permits=False), _END]),
        Ledger([_CALL, replace(_END, complete=False)]),
    ],
)
