"""Chat replies that end before they are complete: every kind of ending, at every position that matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pytest_agentguard import AFTER_FINISH, PURGE, RECORD, REMOVE, SHELL, Reply, Scenario, Where
from pytest_agentguard.scenarios._replies import after_piece, purge, record, remove, shell, then_recover

_INCOMPLETE = ("no-tool-on-incomplete-stream", "no-success-on-incomplete-stream")
_BAIT = (RECORD, PURGE, SHELL, REMOVE)

Ending = Callable[[Reply, Where | None], Reply]

_ENDINGS: Mapping[str, tuple[str, Ending]] = {
    "cut": ("the body ends cleanly", lambda reply, at: reply.cut(at)),
    "close": ("the connection closes as the only end of the body", lambda r, at: r.cut(at, framing="close")),
    "break": ("the body ends against the protocol", lambda reply, at: reply.protocol_cut(at)),
    "reset": ("the connection is reset", lambda reply, at: reply.reset(at)),
}
_REQUIREMENTS = {"cut": ("A18", "A20", "D07"), "close": ("A20",), "break": ("A20",), "reset": ("A20",)}


def _inside_value() -> Reply:
    return Reply().text("Let me record that.").call("record", raw=('{"x": "{nonce}-evi', 'dence"}'))


def _matrix() -> Iterator[Scenario]:
    for name, (words, ending) in _ENDINGS.items():
        yield Scenario(
            id=f"{name}-inside-value",
            summary=f"In the middle of an argument's value {words}.",
            invariants=_INCOMPLETE,
            script=then_recover(
                ending(_inside_value(), after_piece(1)).named(f"{name} inside the value of x")
            ),
            requirements=_REQUIREMENTS[name],
            hint="These are not the arguments of the model, and closing the quotes does not make them so.",
        )
        yield Scenario(
            id=f"{name}-after-first-key",
            summary=f"After a whole first argument {words}; the safety flag that follows is missing.",
            invariants=_INCOMPLETE,
            script=then_recover(ending(remove(), after_piece(0)).named(f"{name} after a whole first key")),
            tools=(REMOVE, RECORD),
            requirements=_REQUIREMENTS[name],
            hint="The arguments can be repaired into an object, and that object drops dry_run.",
        )
        yield Scenario(
            id=f"{name}-before-finish",
            summary=f"The arguments are whole, but before any finish reason {words}.",
            invariants=_INCOMPLETE,
            script=then_recover(ending(record(), None).named(f"{name} before the finish reason")),
            requirements=_REQUIREMENTS[name],
            hint="Without a finish reason nobody knows whether more was to come, or the call was withdrawn.",
        )
        yield Scenario(
            id=f"{name}-in-text",
            summary=f"In the middle of the answer's text {words}.",
            invariants=("no-success-on-incomplete-stream",),
            script=then_recover(
                ending(Reply().text("The answer is not ", "the one ", "you expect."), after_piece(0)).named(
                    f"{name} in the text"
                )
            ),
            requirements=_REQUIREMENTS[name],
            hint="Half an answer can say the opposite of the whole one.",
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
        modes=("stream",),
        hint="No arguments are not empty arguments: with its defaults, this tool deletes everything.",
    ),
    Scenario(
        id="cut-into-defaults",
        summary="The body ends inside the arguments of a tool whose defaults are dangerous.",
        invariants=_INCOMPLETE,
        script=then_recover(purge().cut(inside="scope").named("cut inside the value of scope")),
        tools=_BAIT,
        hint="A fall-back to {} runs this tool with the scope /.",
    ),
    Scenario(
        id="cut-command-line",
        summary="The body ends inside the only argument of a tool that runs command lines.",
        invariants=_INCOMPLETE,
        script=then_recover(shell().cut(inside="command").named("cut inside the value of command")),
        tools=_BAIT,
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
        hint="The turn is incomplete as a whole, so the first call may not run either.",
    ),
    Scenario(
        id="break-in-second-call",
        summary="The first of two calls is whole, and in the second the body ends against the protocol.",
        invariants=("calls-kept-apart", *_INCOMPLETE),
        script=then_recover(
            Reply()
            .call("record", x="{nonce}-first")
            .call("record", raw=('{"x": "{nonce}-sec', 'ond"}'))
            .protocol_cut(after_piece(1))
            .named("broken off inside the second call")
        ),
        hint="The turn is incomplete as a whole, so the first call may not run either.",
    ),
    Scenario(
        id="marker-missing",
        summary="The finish reason has arrived, the completion marker never does.",
        invariants=_INCOMPLETE,
        script=then_recover(record().cut(AFTER_FINISH).named("no completion marker")),
        modes=("stream",),
        strict=True,
        hint="Only an agent that reads the stream itself can see this; the strict rules ask for it.",
    ),
    Scenario(
        id="reset-before-marker",
        summary="The connection is reset between the finish reason and the completion marker.",
        invariants=_INCOMPLETE,
        script=then_recover(record().reset(AFTER_FINISH).named("reset before the completion marker")),
        modes=("stream",),
        strict=True,
        hint="Only an agent that reads the stream itself can see this; the strict rules ask for it.",
    ),
)

SCENARIOS = (*_matrix(), *_BAITED)
