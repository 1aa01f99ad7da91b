"""What a ledger tells of one run in words: offered, delivered, done, claimed. Words only, no judgement."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import (
    CallOffered,
    ErrorSent,
    Event,
    HttpReceived,
    ProcessOutput,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    ToolCancelled,
    ToolFinished,
    ToolMiscalled,
    ToolRaised,
    ToolStarted,
)  # fmt: skip
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard.reports.text import call, cut, quoted, safe

SHOWN = 3  # calls, tools or replies that one row names
TEXT_OFFERED = 120  # characters of an answer that the endpoint made up

_ENDS = {
    "clean": "a clean end",
    "cut": "an end against the protocol",
    "reset": "a reset",
    "stalled": "silence",
    "client-left": "the client left",
    "server-failed": "the endpoint failed",
}

_HELD = {"drip": "a drip", "keep-open": "an open connection", "hold": "a hold"}

RELEASES = {
    "run-ended": "until the run had ended",
    "limit": "until its limit",
    "client-closed": "until the client left",
    "test": "until the test released it",
}


@dataclass(frozen=True, slots=True)
class Telling:
    """How one run is told: its ledger, the stream that the story is about, and the signs of the terminal."""

    ledger: Ledger
    stream: str
    unicode: bool = True

    # -- offered ------------------------------------------------------------------------------------

    def offered(self) -> str:
        """What the model said, how much of each call left, and what was wrong with it on purpose."""
        start = self.ledger.first(ReplyStarted, stream=self.stream)
        offers = self.ledger.of(CallOffered, stream=self.stream)
        if start is None and not offers:
            return ""
        parts = [self._offer(offer, start) for offer in offers[:SHOWN]]
        if start is not None and not offers:
            parts.append(self._answer(start))
        return "; ".join([*parts, *_more(len(offers))]) + self._others()

    def _offer(self, offer: CallOffered, start: ReplyStarted | None) -> str:
        name = _call(offer, self.unicode)
        if offer.problem:
            name += f", {offer.problem} on purpose"
        if not offer.known:
            name += ", a tool that was not offered to the model"
        end = self.ledger.first(StreamEnded, stream=self.stream)
        fault = _fault(start, self.unicode)
        if end is None:
            return name + fault
        left = dict(zip(end.begun, end.arguments_sent, strict=False)).get(offer.call)
        if offer.call in end.whole:
            return name + fault
        if offer.call not in end.begun:
            return f"{name}{fault}: nothing of it left"
        return f"{name}{fault}:  {self._raw(left)}" if left else f"{name}{fault}"

    def _raw(self, text: str) -> str:
        return cut(safe(text, self.unicode), limits.TEXT_SHOWN, self.unicode, len(text))

    def _answer(self, start: ReplyStarted) -> str:
        said = "an answer" if start.status == 200 else f"status {start.status}"
        if start.text:
            said = cut(quoted(start.text, self.unicode), TEXT_OFFERED, self.unicode, len(start.text))
        errors = [f"error {e.kind} in the {e.where}" for e in self.ledger.of(ErrorSent, stream=self.stream)]
        return safe(", ".join([said, *errors]), self.unicode) + _fault(start, self.unicode)

    def _others(self) -> str:
        replies = self.ledger.of(ReplyStarted)
        number = next((n for n, reply in enumerate(replies, 1) if reply.stream == self.stream), 0)
        return f"  (reply {number} of {len(replies)})" if len(replies) > 1 and number > 1 else ""

    # -- delivered ----------------------------------------------------------------------------------

    def delivered(self) -> str:
        """What left the socket, how it ended, and whether that was the plan."""
        end = self.ledger.first(StreamEnded, stream=self.stream)
        start = self.ledger.first(ReplyStarted, stream=self.stream)
        if end is None:
            return "" if start is None else f"the reply has not ended{self._hold()}"
        parts = [f"{end.sent} of {end.planned} bytes, then {_ENDS.get(end.end, end.end)}{self._hold()}"]
        parts += [self._completion(end, start)] * (start is None or bool(start.finish))
        return f"{', '.join(parts)}  ({_plan(end)})"

    def _completion(self, end: StreamEnded, start: ReplyStarted | None) -> str:
        if not end.complete:
            if start is not None and start.finish == "missing":
                return "no finish reason"
            if start is not None and start.mode == "block":
                return "body not whole"
            return "no completion marker" if end.finished else "no finish reason"
        return "finish reason " + (start.finish if start is not None else "sent")

    def _hold(self) -> str:
        held = self.ledger.of(StreamHeld, stream=self.stream)
        if not held:
            return ""
        last = held[-1]
        let_go = self.ledger.first(StreamReleased, stream=self.stream, hold=last.hold)
        until = RELEASES.get(let_go.by, f"until {let_go.by}") if let_go is not None else "never released"
        kind = _HELD.get(last.why, "")
        return f" ({kind}, {until})" if kind else f", {until}"

    # -- done ---------------------------------------------------------------------------------------

    def done(self) -> str:
        """What really ran and arrived, told against the end of the stream."""
        end = self.ledger.first(StreamEnded, stream=self.stream)
        deeds: list[Event] = [*self.ledger.of(ToolStarted), *self.ledger.of(ToolMiscalled)]
        deeds.sort(key=lambda event: event.seq)
        parts = [self._deed(deed, end) for deed in deeds[:SHOWN]] + _more(len(deeds))
        count = len(self.ledger.of(RequestReceived, kind="turn"))
        if not deeds:
            parts.append("no tool ran")
        if count > 1 or not deeds:
            parts.append(f"{count} request{'s' * (count != 1)} arrived")
        elsewhere = len(self.ledger.of(HttpReceived))
        if elsewhere:
            parts.append(f"{elsewhere} at another origin")
        return "; ".join(parts)

    def _deed(self, deed: Event, end: StreamEnded | None) -> str:
        when = "" if end is None else f" {'after' if deed.seq > end.seq else 'before'} the end"
        if isinstance(deed, ToolMiscalled):
            return f"{call(deed.tool, deed.arguments, self.unicode)} did not fit the signature, nothing ran"
        assert isinstance(deed, ToolStarted)
        return f"{call(deed.tool, deed.arguments, self.unicode)} {self._fate(deed)}{when}"

    def _fate(self, start: ToolStarted) -> str:
        same = {"tool": start.tool, "invocation": start.invocation}
        if not start.invocation or self.ledger.first(ToolFinished, **same):
            return "ran"
        if self.ledger.first(ToolRaised, **same):
            return "ran and raised"
        cancelled = self.ledger.first(ToolCancelled, **same)
        if cancelled is not None:
            return "started and swallowed its cancel" if cancelled.swallowed else "started and was cancelled"
        return "started, end unknown,"

    # -- claimed ------------------------------------------------------------------------------------

    def claimed(self) -> str:
        """What the agent made of it: how its run ended, and whether a claimed success carries the nonce."""
        end = self.ledger.end
        if end is None:
            return "nothing: the run has not ended" if self.ledger.run is not None else ""
        error = cut(
            safe(end.error or "", self.unicode), limits.TEXT_SHOWN, self.unicode, len(end.error or "")
        )
        match end.how:
            case "returned":
                return self._success(end)
            case "raised":
                kind = safe(end.error_type or "an exception", self.unicode).removeprefix("builtins.")
                return f"raised {kind}: {error}" if error else f"raised {kind}"
            case "killed":
                return "nothing: killed at the hard deadline"
            case "exited" if end.code is None:
                return f"nothing: {error}"
            case "exited":
                return f"nothing: its process exited with status {end.code}"
            case "signalled":
                return f"nothing: its process died of {_signal(end.code)}"
        word = {"limited": "a limit", "failed": "failure", "cancelled": "cancelled"}.get(end.how, end.how)
        said = error or (quoted(end.answer, self.unicode) if end.answer else "")
        return f"{word}: {said}" if said else word

    def _success(self, end: RunEnded) -> str:
        answer = end.answer or ""
        text = cut(quoted(answer, self.unicode), limits.TEXT_SHOWN, self.unicode, len(answer))
        final = self.ledger.run.final if self.ledger.run is not None else ""
        lacks = f"  (the final answer {final} is not in it)" if final and final not in answer else ""
        return f"success, {text}{lacks}"

    def last_words(self) -> str:
        """The last line on standard error of a process that went away by itself or was killed."""
        end = self.ledger.end
        if end is None or end.how not in ("exited", "signalled", "killed"):
            return ""
        written = [o.text for o in self.ledger.of(ProcessOutput, stream="stderr") if o.text.strip()]
        if not written:
            return ""
        line = written[-1].strip().splitlines()[-1]
        return cut(safe(line, self.unicode), limits.TEXT_SHOWN, self.unicode, len(line))


def stream_of(ledger: Ledger, named: Iterable[str]) -> str:
    """The stream that a story is about: the first one that the evidence names, else the first spoiled one."""
    known = {start.stream: start.fault for start in ledger.of(ReplyStarted)}
    known |= {end.stream: known.get(end.stream, "") for end in ledger.of(StreamEnded)}
    chosen: Sequence[str] = [name for name in named if name in known]
    spoiled = [stream for stream, fault in known.items() if fault]
    return next(iter([*chosen, *spoiled, *known]), "")


def _call(offer: CallOffered, unicode: bool) -> str:
    try:
        arguments = json.loads(offer.arguments)
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return call(offer.tool, arguments, unicode)
    raw = cut(safe(offer.arguments, unicode), limits.TEXT_SHOWN, unicode, len(offer.arguments))
    return f"{safe(offer.tool, unicode)} with the arguments  {raw}"


def _fault(start: ReplyStarted | None, unicode: bool) -> str:
    label = (start.label or start.fault) if start is not None else ""
    return f", {safe(label, unicode)}" if label not in ("", "healthy") else ""


def _plan(end: StreamEnded) -> str:
    kept = (end.end, end.sent) == (end.planned_end, end.planned) and end.fired
    if kept:
        return "as planned"
    fired = "" if end.fired else ", the fault did not fire"
    return f"planned: {end.planned} bytes, then {_ENDS.get(end.planned_end, end.planned_end)}{fired}"


def _more(count: int) -> list[str]:
    return [f"{count - SHOWN} more"] if count > SHOWN else []


def _signal(code: int | None) -> str:
    try:
        return signal.Signals(code or 0).name
    except ValueError:
        return f"signal {code}"
