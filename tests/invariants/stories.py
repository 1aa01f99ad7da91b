"""Ledgers of whole runs, written down as the witnesses would: replies are really planned, nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from pytest_agentguard import Ledger, Level, Outcome, Reply, Verdict, catalogue, judge
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import Hold, Note
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard.events import (
    CallOffered,
    ClientClosed,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    ToolFinished,
    ToolStarted,
    Witness,
)

FINAL = "final-k000000"
RECORD = {
    "type": "object",
    "properties": {"x": {"type": "string"}, "y": {"type": "string", "default": ""}},
    "required": ["x"],
    "additionalProperties": False,
}
STREAM = {id: rule for id, rule in catalogue.invariants().items() if rule.family == "stream"}


class Story:
    """One run: what the endpoint sent, what the agent did, how it ended."""

    def __init__(
        self, dialect: str = "openai-chat", mode: str = "stream", *, lane: str = "", strict: bool = False
    ) -> None:
        self.ledger = Ledger()
        self.dialect = catalogue.dialect(dialect)
        self.mode = mode
        self.strict = strict
        self._lane = lane
        self._ids = CountedIds(f"story-{lane}")
        self._numbers = count(1)
        self._invocations = count(1)
        self._turn = 1
        self._tools: dict[str, Any] = {}
        self._body: list[str] = ["prompt"]

    def start(self, *, tools: dict[str, Any] | None = None, **limits: float) -> Story:
        """The agent is handed its job."""
        self._tools = tools or {"record": RECORD}
        self._record(RunStarted, Witness.RUNNER, final=FINAL, limits=limits, tools=self._tools)
        return self

    def plays(
        self, reply: Reply, *, left_at: int | None = None, release: str = "run-ended"
    ) -> list[CallOffered]:
        """The agent asks and gets ``reply``; it leaves after ``left_at`` bytes, if at all."""
        n = next(self._numbers)
        stream, request = f"s{n}", f"r{n}"
        body = json.dumps(self._body)
        self._record(
            RequestReceived, Witness.ENDPOINT, request=request, turn=self._turn, body=body, mode=self.mode
        )
        setting = Setting(self.dialect, self.mode, self._ids, stream, request, strict=self.strict)
        made = plan(reply, replace(setting, tools=tuple(self._tools)))
        before = len(self.ledger)
        for step in made.steps():
            if isinstance(step, Note):
                self._record(step.kind, **step.fields)
            elif isinstance(step, Hold):
                self._hold(stream, step, release)
        self._ended(stream, made, made.last if left_at is None else left_at, left_at is not None)
        return [event for event in list(self.ledger)[before:] if isinstance(event, CallOffered)]

    def _hold(self, stream: str, hold: Hold, release: str) -> None:
        facts = {"stream": stream, "hold": hold.name}
        self._record(StreamHeld, Witness.ENDPOINT, why=hold.why, **facts)
        if release == "client-closed":
            self._record(ClientClosed, Witness.ENDPOINT, stream=stream)
        if release != "run-ended":
            self._record(StreamReleased, Witness.ENDPOINT, by=release, **facts)

    def _ended(self, stream: str, made: Any, sent: int, left: bool) -> None:
        delivered = made.delivered(sent)
        if delivered.complete and not made.fault_at:
            self._turn += 1
        self._record(
            StreamEnded, Witness.ENDPOINT, stream=stream, complete=delivered.complete, sent=sent,
            planned=made.last, end="client-left" if left else str(made.end), planned_end=str(made.end),
            fired=delivered.fired, begun=delivered.begun, whole=delivered.whole, text_sent=delivered.text,
        )  # fmt: skip

    def runs(self, offer: CallOffered, *, result: str = "done {nonce}", **changed: Any) -> None:
        """The agent runs a call, and will tell the model its result."""
        arguments = {**(json.loads(offer.arguments or "{}") if not changed else {}), **changed}
        invocation = f"i{next(self._invocations)}"
        facts = {"tool": offer.tool, "invocation": invocation}
        self._record(ToolStarted, Witness.TOOL_SPY, arguments=arguments, **facts)
        told = result.replace("{nonce}", self._ids.nonce())
        self._record(ToolFinished, Witness.TOOL_SPY, result=told, **facts)
        self.tells(offer, told)

    def tells(self, offer: CallOffered, what: str) -> None:
        """The next request carries the call, and ``what`` as its result."""
        self._body.append(f"{offer.call_id} {offer.arguments} -> {what}")

    def returns(self, answer: str = f"The answer is {FINAL}") -> Ledger:
        """The run ends by a normal return."""
        self._record(RunEnded, Witness.RUNNER, how="returned", answer=answer)
        return self.ledger

    def raises(self, error: str, *, error_type: str = "AgentError", how: str = "raised") -> Ledger:
        """The run ends with an error."""
        self._record(RunEnded, Witness.RUNNER, how=how, error=error, error_type=error_type)
        return self.ledger

    def _record(self, kind: Any, witness: Witness | None = None, /, **fields: Any) -> None:
        if witness is not None:
            fields["witness"] = witness
        if self._lane:
            fields["lane"] = self._lane
        self.ledger.record(kind, **fields)


def record(**more: str) -> Reply:
    """The model asks for ``record`` once."""
    return Reply().text("Let me record that.").call("record", x="{nonce}-evidence", **more)


def final() -> Reply:
    """The model answers."""
    return Reply().text("The answer is ", FINAL)


def verdicts(ledger: Ledger) -> dict[str, Verdict]:
    """What every stream rule says."""
    return {id: judge(ledger, rule) for id, rule in STREAM.items()}


def alarms(ledger: Ledger, levels: Sequence[Level] = tuple(Level)) -> list[str]:
    """Every violation at one of the levels, and every run that proves nothing."""
    return [
        f"{id}: {verdict.summary}"
        for id, verdict in verdicts(ledger).items()
        if verdict.outcome is Outcome.INVALID
        or (verdict.outcome is Outcome.VIOLATED and verdict.level in levels)
    ]
