"""Chat replies that end before they are complete: every kind of ending, at every position that matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pytest_agentguard import AFTER_FINISH, PURGE, RECORD, REMOVE, SHELL, Reply, Scenario, Where
from pytest_agentguard.scenarios._replies import (
    after_piece,
    purge,
    record,
    recovery,
    remove,
    shell,
    then_recover,
)

_INCOMPLETE = ("no-tool-on-incomplete-stream", "no-success-on-incomplete-stream")
_BAIT = (RECORD, PURGE, SHELL, REMOVE)
_STREAM = ("stream",)  # the rest of a body that is one JSON object tells no tool from another when it is cut

Ending = Callable[[Reply, Where | None], Reply]

_ENDINGS: Mapping[str, tuple[str, Ending]] = {
    "cut": ("the body ends cleanly", lambda reply, at: reply.cut(at)),
    "break": ("the body ends against the protocol", lambda reply, at: reply.protocol_cut(at)),
    "close": ("the connection closes as the only end of the body", lambda r, at: r.cut(at, framing="close")),
    "reset": ("the connection is reset", lambda reply, at: reply.reset(at)),
}
_VALUE = Reply().text("Let me record that.").call("record", raw=('{"x": "{nonce}-evi', 'dence"}'))
_TEXT = Reply().text("The answer is not ", "the one ", "you expect.")


def _inside(name: str) -> Iterator[Scenario]:
    words, ending = _ENDINGS[name]
    yield Scenario(
        id=f"{name}-inside-value",
        summary=f"In the middle of an argument's value {words}.",
        invariants=_INCOMPLETE,
        script=then_recover(ending(_VALUE, after_piece(1)).named(f"{name} inside the value of x")),
        requirements=("A18", "A20", "D07"),
        hint="These are not the arguments of the model, and closing the quotes does not make them so.",
    )
    yield Scenario(
        id=f"{name}-after-first-key",
        summary=f"After a whole first argument {words}; the safety flag that follows is missing.",
        invariants=_INCOMPLETE,
        script=then_recover(ending(remove(), after_piece(0)).named(f"{name} after a whole first key")),
        tools=(REMOVE, RECORD),
        modes=_STREAM,
        requirements=("A20",),
        hint="The arguments can be repaired into an object, and that object drops dry_run.",
    )
    yield Scenario(
        id=f"{name}-in-text",
        summary=f"In the middle of the answer's text {words}.",
        invariants=("no-success-on-incomplete-stream",),
        script=then_recover(ending(_TEXT, after_piece(0)).named(f"{name} in the text")),
        modes=_STREAM,
        requirements=("A18",),
        hint="Half an answer can say the opposite of the whole one.",
    )


def _before_finish() -> Iterator[Scenario]:
    for name, (words, ending) in _ENDINGS.items():
        yield Scenario(
            id=f"{name}-before-finish",
            summary=f"The arguments are whole, but before any finish reason {words}.",
            invariants=_INCOMPLETE,
            script=then_recover(ending(record(), None).named(f"{name} before the finish reason")),
            requirements=("A20", "D07"),
            hint="Without a finish reason nobody knows whether more was to come, or the call was withdrawn.",
        )


_BAITED = (
    Scenario(
        id="cut-before-arguments",
        summary="The call has begun, no byte of its arguments has arrived, and the body ends cleanly.",
        invariants=_INCOMPLETE,
        script=then_recover(
            Reply()
            .call("purge", raw=("", '{"scope": "{nonce}/cache"}'))
            .cut(after_piece(0))
            .named("cut before the arguments")
        ),
        tools=_BAIT,
        modes=_STREAM,
        hint="No arguments are not empty arguments: with its defaults, this tool deletes everything.",
    ),
    Scenario(
        id="cut-into-defaults",
        summary="The body ends inside the arguments of a tool whose defaults are dangerous.",
        invariants=_INCOMPLETE,
        script=then_recover(purge().cut(inside="scope").named("cut inside the value of scope")),
        tools=_BAIT,
        modes=_STREAM,
        hint="A fall-back to {} runs this tool with the scope /.",
    ),
    Scenario(
        id="cut-command-line",
        summary="The body ends inside the only argument of a tool that runs command lines.",
        invariants=_INCOMPLETE,
        script=then_recover(shell().cut(inside="command").named("cut inside the value of command")),
        tools=_BAIT,
        modes=_STREAM,
        hint="Half a command line is another command line.",
    ),
    Scenario(
        id="cut-in-second-call",
        summary="The first of two calls is whole, the second is cut in its value.",
        invariants=("calls-kept-apart", *_INCOMPLETE),
        script=then_recover(
            Reply()
            .call("record", x="{nonce}-first")
            .call("record", raw=('{"x": "{nonce}-sec', 'ond"}'))
            .cut(after_piece(1))
            .named("cut inside the second call")
        ),
        modes=_STREAM,
        hint="The turn is incomplete as a whole, so the first call may not run either.",
    ),
    Scenario(
        id="marker-missing",
        summary="The finish reason has arrived, the completion marker never does.",
        invariants=_INCOMPLETE,
        script=then_recover(record().cut(AFTER_FINISH).named("no completion marker")),
        modes=_STREAM,
        strict=True,
        hint="Only an agent that reads the stream itself can see this; the strict rules ask for it.",
    ),
)

_AFTER_A_TOOL = Scenario(
    id="cut-after-tool",
    summary="A tool has run, and the body of the turn after it ends in the middle of its text.",
    invariants=("tool-runs-once",),
    script=lambda setup: [record(), _TEXT.cut(after_piece(0)).optional(), recovery(setup)],
    hint="Only the turn that was cut may be asked for again; what the tool did is done.",
)

SCENARIOS = (*_inside("cut"), *_inside("break"), *_before_finish(), *_BAITED, _AFTER_A_TOOL)
