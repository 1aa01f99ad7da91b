"""A whole call whose arguments are not a JSON object starts no tool, with whatever arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from json import loads

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    ToolStarted,
    Witness,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """Empty arguments are not broken: several providers send nothing for a tool without parameters."""
    for offer, end in reading.permitted_calls(ledger):
        if not _broken(offer):
            continue
        yield exercised(offer, end)
        for start in ledger.of(ToolStarted, call=offer.call):
            if not _handed_over(ledger, offer, start):
                yield violated(
                    f"tool={start.tool} started, arguments={reading.brief(start.arguments)}, "
                    f"offered={reading.brief(offer.arguments)}",
                    offer, end, start,
                )  # fmt: skip


def _broken(offer: CallOffered) -> bool:
    if not offer.arguments.strip():
        return False
    unlabelled = offer.problem == "" and reading.json_object(offer.arguments) is None
    return offer.problem == "broken" or unlabelled


def _handed_over(ledger: Ledger, offer: CallOffered, start: ToolStarted) -> bool:
    """Whether a JSON string went unchanged to a tool that declares exactly one string (requirement A25)."""
    properties = reading.schema_of(ledger, offer).get("properties")
    if not isinstance(properties, dict) or len(properties) != 1 or start.tool != offer.tool:
        return False
    ((name, entry),) = properties.items()
    if not isinstance(entry, dict) or entry.get("type") != "string":
        return False
    try:
        given = loads(offer.arguments)
    except (ValueError, RecursionError):
        return False
    return isinstance(given, str) and start.arguments == {name: given}


_SHELL = {"shell": {"type": "object", "properties": {"command": {"type": "string"}}}}
_JOB = RunStarted(witness=Witness.RUNNER, tools=_SHELL)
_CALL = CallOffered(
    witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="shell", arguments='{"command": "n1', nonce="n1"
)
_MARKER = StreamCompleted(witness=Witness.ENDPOINT, stream="s1")
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=True, begun=("s1.c1",), whole=("s1.c1",))
_REPAIRED = ToolStarted(witness=Witness.TOOL_SPY, tool="shell", arguments={"command": "n1"})
_RAW = replace(_REPAIRED, arguments={"command": '{"command": "n1'})
_NOTHING = replace(_REPAIRED, arguments={})
_STRING = replace(_CALL, arguments='"ls n1"')
_LIST = replace(_CALL, arguments='["ls n1"]')

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "Arguments that do not parse are no arguments. Repaired, defaulted or handed over as raw text, "
        "they are something that the model never asked for, and a shell runs it."
    ),
    source="wire facts §3.3 (SDK traps), §6 (arguments whole); requirement A25",
    remedy=(
        "Parse with a strict parser; report what fails as a result of the call, so that the model can "
        "correct it."
    ),
    occasion="a complete reply that permits its calls, with arguments that are not a JSON object",
    holds=[Ledger([_JOB, _CALL, _MARKER, _END]), Ledger([_JOB, _LIST, _MARKER, _END])],
    breaks=[
        Ledger([_JOB, _CALL, _MARKER, _END, _REPAIRED]),
        Ledger([_JOB, _CALL, _MARKER, _END, _RAW]),
        Ledger([_JOB, _CALL, _MARKER, _END, _NOTHING]),
        Ledger([_JOB, _LIST, _MARKER, _END, replace(_REPAIRED, arguments={"command": "ls n1"})]),
        Ledger([_JOB, replace(_CALL, arguments="null", nonce=""), _MARKER, _END, _NOTHING]),
    ],
    silent=[
        Ledger([_JOB, replace(_CALL, arguments='{"command": "n1"}'), _MARKER, _END, _REPAIRED]),
        Ledger([_JOB, _STRING, _MARKER, _END, replace(_REPAIRED, arguments={"command": "ls n1"})]),
        Ledger([_JOB, replace(_CALL, arguments="", nonce=""), _MARKER, _END, _NOTHING]),
    ],
    idle=[
        Ledger([_JOB, _CALL, replace(_MARKER, permits=False), _END]),
        Ledger([_JOB, _CALL, replace(_END, complete=False)]),
    ],
)
