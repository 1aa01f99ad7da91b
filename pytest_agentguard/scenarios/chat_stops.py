"""Chats that have to stop: at a timeout, at the deadline, by a cancel at every point, beside others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_agentguard import RECORD, START, Behaviour, Cancel, Lane, Limits, Reply, Scenario, Setup, ToolSpec
from pytest_agentguard.scenarios._replies import after_piece, answer, record, recovery, then_recover
from pytest_agentguard.scenarios._stops import AFTER_CANCEL, LATE, slow_tool

_WAITS = ("timeout-ends-call", "timeout-is-not-cancel", "no-call-after-stop", "every-wait-has-an-exit")
_DEADLINE = (
    "deadline-ends-run",
    "timeout-is-not-cancel",
    "no-call-after-stop",
    "nothing-left-behind",
)
_FAILING = ToolSpec(
    name="pay",
    description="Pay a sum.",
    parameters=RECORD.parameters,
    behaviour=Behaviour(does="raise", error="the account is closed"),
)


def _two_calls() -> Reply:
    return Reply().call("record", x="{nonce}-first").call("record", x="{nonce}-second")


def _effect_and_wait() -> Reply:
    """A call that is over at once, and one that takes its time."""
    return Reply().call("record", x="{nonce}-first").call("wait", x="{nonce}-second").named("two calls")


def _long_text() -> Reply:
    """Text of which the half has arrived for a while when nothing more comes."""
    text = Reply().text("First, turn it off. ", "Then wait for a minute. ", "Then turn it on again.")
    return text.pause(0.1, after_piece(0, 1)).hold(after_piece(0, 1)).named("held in the text")


_TIMEOUTS = (
    Scenario(
        id="hold-before-head",
        summary="The request is accepted, and no head of a response ever comes.",
        invariants=_WAITS,
        script=then_recover(record().hold().named("held before the head")),
        limits=Limits(request_timeout=0.5, attempts=1),
        requirements=("A23", "B07"),
        hint="The connection is fine and so is the server; only a limit on the exchange ends this.",
    ),
    Scenario(
        id="stall-in-exchange",
        summary="The body stops in the middle, under a limit on the whole exchange.",
        invariants=(*_WAITS, "no-tool-on-incomplete-stream"),
        script=then_recover(Reply().call("record", x="{nonce}-evidence").stall(inside="x")),
        limits=Limits(request_timeout=0.5, attempts=1),
        modes=("stream",),
        requirements=("A23", "B07"),
        hint="A timeout that is over once the head has come never ends this.",
    ),
    Scenario(
        id="deadline-before-timeout",
        summary="The deadline of the run passes long before the timeout of its request.",
        invariants=_DEADLINE,
        script=then_recover(record().hold().named("held before the head")),
        limits=Limits(request_timeout=8.0, deadline=0.5),
        modes=("stream",),
        requirements=("A16", "A23", "B08"),
        hint="The run has less time than the request; what is left of the request has to go with it.",
    ),
    Scenario(
        id="deadline-over-idle-timeout",
        summary="A keep-alive comes now and then, so that the idle timeout starts again and again.",
        invariants=(*_DEADLINE, "no-success-on-incomplete-stream"),
        script=then_recover(record().drip(every=0.1, limit=10.0)),
        limits=Limits(idle_timeout=0.6, deadline=1.0),
        modes=("stream",),
        requirements=("A16", "A23", "B08"),
        hint="The idle timeout never fires; the deadline does not start again.",
    ),
    Scenario(
        id="closed-without-reply",
        summary="The connection ends before a byte of the body has come.",
        invariants=("closed-stream-resolves",),
        script=then_recover(record().protocol_cut(START)),
        seconds=10.0,
        hint="Nothing more can come; who waits for it has to hear of that.",
    ),
)


def _one_blocks(setup: Setup) -> Sequence[Lane]:
    """While the tool runs, one of the others has its answer, and after that time goes by with the third."""
    text = Reply().text("The answer is ", setup.final)
    held = text.pause(0.45, after_piece(0, 0)).hold(after_piece(0, 0), limit=0.35)
    return [
        Lane("blocking", [record().pause(0.15, after_piece(0, 1)), answer(setup).times(2)]),
        Lane("beside", [text.pause(0.3, after_piece(0, 0)).named("answer after 0.3 s")]),
        Lane("later", [held.named("held for a while")]),
    ]


def _one_is_stopped(setup: Setup) -> Sequence[Lane]:
    healthy = record().pause(0.4, after_piece(0, 1)).named("healthy and slow")
    return [
        Lane("stopped", [record().hold().named("held before the head"), recovery(setup)]),
        *(Lane(f"whole-{n}", [healthy, answer(setup)]) for n in (1, 2)),
    ]


_SIDE_BY_SIDE = (
    Scenario(
        id="tool-fails-beside-another",
        summary="Two tools are called in one turn; one fails at once, the other takes its time.",
        invariants=("no-orphan-siblings", "nothing-left-behind", "transcript-is-valid"),
        script=then_recover(
            Reply().call("record", x="{nonce}-evidence").call("pay", x="{nonce}-sum").named("two calls")
        ),
        tools=(slow_tool(), _FAILING),
        modes=("stream",),
        watch=LATE,
        hint="Where one failure ends the run, the other tool has to be ended too, and waited for.",
    ),
    Scenario(
        id="tool-blocks-beside-others",
        summary="A tool takes a second, while two other chats get their answers.",
        invariants=("blocking-tool-does-not-freeze", "runs-isolated"),
        lanes=_one_blocks,
        together=True,
        paced=True,  # on a busy machine nobody reads an answer in time
        tools=(slow_tool(),),
        modes=("stream",),
        requirements=("B15",),
        hint="A loop that waits in a tool reads nobody's answer.",
    ),
)


def _cancelled(
    id: str,
    summary: str,
    script: Callable[[Setup], Sequence[Reply]],
    cancel: Cancel,
    hint: str,
    *more: str,
    tools: tuple[ToolSpec, ...] = (RECORD,),
    modes: tuple[str, ...] = ("stream",),
    requirements: tuple[str, ...] = ("A03", "B17"),
) -> Scenario:
    return Scenario(
        id=id,
        summary=summary,
        invariants=(*AFTER_CANCEL, *more),
        script=script,
        cancel=cancel,
        tools=tools,
        modes=modes,
        watch=LATE if tools != (RECORD,) else 0.5,
        requirements=requirements,
        hint=hint,
    )


_CANCELS = (
    _cancelled(
        "cancel-before-send",
        "The run is cancelled before it has sent anything.",
        lambda setup: [record().optional(), answer(setup).times(8)],
        Cancel(at="before-send"),
        "What has not begun does not begin.",
    ),
    _cancelled(
        "cancel-in-request",
        "The run is cancelled when its request has been read and nothing of the answer has come.",
        then_recover(record().hold().named("held before the head")),
        Cancel(at="request"),
        "The request is at the server; the run is over all the same, and asks no more.",
        "every-wait-has-an-exit",
        modes=("stream", "block"),
        requirements=("A03", "A23", "B09", "B17", "D09"),
    ),
    _cancelled(
        "cancel-in-body",
        "The run is cancelled in the middle of an answer.",
        then_recover(_long_text()),
        Cancel(at="body"),
        "What had arrived is the user's; what had not is not waited for.",
        "every-wait-has-an-exit",
        "partial-text-kept",
        requirements=("A03", "A38", "B17"),
    ),
    _cancelled(
        "cancel-in-call",
        "The run is cancelled when half of a call has arrived.",
        then_recover(
            Reply().call("record", x="{nonce}-evidence").hold(after_piece(0)).named("held in a call")
        ),
        Cancel(at="body"),
        "Half a call, and nobody who wants it any more.",
        "every-wait-has-an-exit",
    ),
    _cancelled(
        "cancel-in-tool",
        "The run is cancelled while the first of two tools runs.",
        then_recover(_two_calls().named("two calls")),
        Cancel(at="tool"),
        "The tool is ended or waited for, and the other one does not start.",
        "no-orphan-siblings",
        tools=(slow_tool(),),
        modes=("stream", "block"),
        requirements=("A03", "B09", "B15", "B17", "D09"),
    ),
    _cancelled(
        "cancel-after-effect",
        "The run is cancelled when one tool has had its effect and another one runs.",
        then_recover(_effect_and_wait()),
        Cancel(at="tool", nth=2),
        "The first one has happened, whatever is said of the run.",
        "cancel-is-not-rollback",
        "no-orphan-siblings",
        tools=(RECORD, slow_tool("wait")),
        requirements=("A03", "B10", "B16", "B17", "D09"),
    ),
    _cancelled(
        "cancel-swallowed-by-tool",
        "The run is cancelled while a tool runs that swallows the cancel and returns.",
        then_recover(_two_calls().named("two calls")),
        Cancel(at="tool"),
        "The tool does not know whose cancel it was; the agent does.",
        "no-orphan-siblings",
        tools=(slow_tool(does="swallow-cancel"),),
        requirements=("A03", "B15", "B17"),
    ),
    _cancelled(
        "cancel-twice",
        "The run is cancelled while a tool runs, and once more while that is cleaned up.",
        then_recover(_two_calls().named("two calls")),
        Cancel(at="tool", again=True),
        "An impatient user is still one user, and the clean-up still has to be done.",
        "no-orphan-siblings",
        tools=(slow_tool(),),
    ),
    Scenario(
        id="three-chats-one-cancelled",
        summary="Three chats run at once, and one of them is cancelled while it waits.",
        invariants=("runs-isolated", "cancel-stays-cancelled", "no-call-after-stop"),
        lanes=_one_is_stopped,
        together=True,
        cancel=Cancel(at="request"),
        modes=("stream",),
        requirements=("B17", "D09"),
        hint="The cancel is for one of them; the others get their answers.",
    ),
)


SCENARIOS = (*_TIMEOUTS, *_SIDE_BY_SIDE, *_CANCELS)
