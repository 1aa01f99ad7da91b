"""Ledgers of whole runs, written by hand, and the checks that rules would make of them."""

from __future__ import annotations

from pytest_agentguard import Ledger, Level, Outcome, Verdict
from pytest_agentguard._core.report import Check, check_of
from pytest_agentguard.events import (
    CallOffered,
    ClientClosed,
    Event,
    ProcessOutput,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    RunStarted,
    StreamCompleted,
    StreamEnded,
    StreamHeld,
    StreamReleased,
    ToolFinished,
    ToolStarted,
    Witness,
)

ENDPOINT, RUNNER, SPY = Witness.ENDPOINT, Witness.RUNNER, Witness.TOOL_SPY
CASE = {"agent": "langchain", "surface": "chat", "dialect": "openai-chat", "mode": "stream"}


def began(lane: str = "") -> Event:
    """The run of every ledger here."""
    case = {"agent": "langchain", "dialect": "openai-chat", "mode": "stream", "final": "final-91c2"}
    return RunStarted(witness=RUNNER, lane=lane, **case)


def asked(request: str = "r1", turn: int = 1, lane: str = "") -> Event:
    """A request of the model's turn."""
    return RequestReceived(
        witness=ENDPOINT,
        lane=lane,
        request=request,
        turn=turn,
        path="/v1/chat/completions",
        dialect="openai-chat",
        mode="stream",
        credentials=("authorization",),
        headers={"authorization": "present"},
        body="{" + "x" * 5000 + "}",
        body_bytes=5002,
    )


def answered(label: str, fault: str, finish: str = "tool_calls", lane: str = "", **more: object) -> Event:
    """The reply ``s1`` to ``r1`` begins."""
    fields = {"mode": "stream", "dialect": "openai-chat", **more}
    return ReplyStarted(
        witness=ENDPOINT,
        lane=lane,
        stream="s1",
        request="r1",
        label=label,
        finish=finish,
        fault=fault,
        **fields,
    )


def offered(lane: str = "", arguments: str = '{"x": "evidence-7f3a"}', **more: object) -> Event:
    """It offers one call of ``record``."""
    return CallOffered(
        witness=ENDPOINT, lane=lane, stream="s1", call="s1.c1", tool="record", arguments=arguments, **more
    )


def ended(sent: int = 412, lane: str = "", left: str = '{"x": "evid', **more: object) -> Event:
    """It stopped in the middle of the call."""
    fields = {"complete": False, "planned": sent, "begun": ("s1.c1",), "arguments_sent": (left,), **more}
    return StreamEnded(witness=ENDPOINT, lane=lane, stream="s1", sent=sent, **fields)


def ran(lane: str = "", **arguments: object) -> list[Event]:
    """The tool really ran."""
    return [
        ToolStarted(witness=SPY, lane=lane, tool="record", invocation="i1", arguments=arguments),
        ToolFinished(witness=SPY, lane=lane, tool="record", invocation="i1", result="done"),
    ]


def returned(answer: str, lane: str = "") -> Event:
    """The run returned ``answer``."""
    return RunEnded(witness=RUNNER, lane=lane, how="returned", answer=answer)


def cut_inside_value() -> Ledger:
    """Cut inside a value; the tool ran on what had left."""
    offer = [began(), asked(), answered("cut inside the value", "cut"), offered(), ended()]
    return Ledger([*offer, *ran(x="evid"), returned("final-91c2")])


def false_success() -> Ledger:
    """Cut inside the text; the run returned what it had."""
    start = answered("cut in the text", "cut", "stop", text="Let me think about it")
    end = StreamEnded(
        witness=ENDPOINT, stream="s1", complete=False, sent=205, planned=205, text_sent="Let me "
    )
    return Ledger([began(), asked(), start, end, returned("Let me ")])


def stall() -> Ledger:
    """Stalled inside a value, and the client still waited when the hold ended at its limit."""
    hold = {"witness": ENDPOINT, "stream": "s1", "hold": "stall"}
    end = ended(sent=380, end="stalled", planned_end="stalled")
    over = [StreamHeld(**hold, sent=380), StreamReleased(**hold, by="limit"), end]
    late = RunEnded(witness=RUNNER, how="raised", error_type="openai.APIError", error="stream ended early")
    return Ledger([began(), asked(), answered("stall inside the value", "stall"), offered(), *over, late])


def crashed() -> Ledger:
    """The agent's process died of a signal in mid-stream."""
    left = [ClientClosed(witness=ENDPOINT, stream="s1"), ended(sent=300, planned=412, end="client-left")]
    words = ProcessOutput(
        witness=RUNNER, stream="stderr", text="warming up\nFatal: \x1b[31mout of memory\n", total=40
    )
    died = RunEnded(witness=RUNNER, how="signalled", code=9)
    return Ledger(
        [began(), asked(), answered("reset inside the value", "reset"), offered(), *left, words, died]
    )


def control_failed() -> Ledger:
    """The control, in which the tool never ran."""
    start = answered("healthy", "")
    done = [StreamCompleted(witness=ENDPOINT, stream="s1"), ended(complete=True, whole=("s1.c1",))]
    return Ledger([began(), asked(), start, offered(), *done, returned("nothing to do")])


def sweep() -> Ledger:
    """Three offsets side by side; the tool ran after the cut at the second one."""
    events: list[Event] = []
    for lane, size in (("byte 1", 1), ("byte 2", 2), ("byte 3", 3)):
        begin = [began(lane), asked(lane=lane), answered("cut at a byte", "cut", lane=lane), offered(lane)]
        tool = ran(lane, x="") if size == 2 else []
        events += [*begin, ended(size, lane, left=""), *tool, returned("final-91c2", lane)]
    return Ledger(events)


def verdict(
    ledger: Ledger, rule: str, summary: str, *kinds: type[Event], lane: str = "", **how: object
) -> Verdict:
    """The verdict of ``rule``: violated at level must unless said otherwise; evidence by kind."""
    events = [event for kind in kinds for event in ledger.of(kind) if event.lane == lane]
    fields = {"outcome": Outcome.VIOLATED, "level": Level.MUST, **how}
    return Verdict(invariant=rule, summary=summary, evidence=tuple(events), occasions=1, **fields)


def check(verdict: Verdict, scenario: str) -> Check:
    """The check of a verdict."""
    return check_of(verdict, scenario=scenario, **CASE)
