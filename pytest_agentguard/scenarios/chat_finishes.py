"""Chat replies that say that they must not be acted on: limits, filters, refusals, errors."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agentguard import BEFORE_FINISH, PURGE, RECORD, REMOVE, SHELL, Reply, Scenario
from pytest_agentguard.scenarios._replies import BROKEN_JSON, after_piece, record, then_recover

_WITHDRAWN = ("no-tool-on-withdrawn-call",)
_SAME_AS_REFUSAL = (("anthropic", "stream"), ("anthropic", "block"))  # one stop reason means both there
_PARTIAL = "It has to do with the number "


def _stopped(reply: Reply, reason: str, label: str) -> Reply:
    return reply.finish(reason).named(label)


_LENGTH = (
    Scenario(
        id="length-inside-value",
        summary="The output limit stopped the model in the middle of an argument's value.",
        invariants=("no-tool-on-length-stop",),
        script=then_recover(
            _stopped(
                Reply().call("record", raw='{"x": "{nonce}-evi', problem="broken"),
                "length",
                "output limit inside the value of x",
            )
        ),
        without=BROKEN_JSON,
        requirements=("A21",),
        hint="The model had not finished writing the arguments.",
    ),
    Scenario(
        id="length-after-first-key",
        summary="The output limit stopped the model after a whole first argument, before the safety flag.",
        invariants=("no-tool-on-length-stop",),
        script=then_recover(
            _stopped(
                Reply().call("remove", raw='{"path": "{nonce}/data"', problem="broken"),
                "length",
                "output limit after a whole first key",
            )
        ),
        tools=(REMOVE, RECORD),
        without=BROKEN_JSON,
        requirements=("A21",),
        hint="The arguments can be repaired into an object, and that object drops dry_run.",
    ),
    Scenario(
        id="length-into-defaults",
        summary="The output limit stopped the model at the first brace of a dangerous tool's arguments.",
        invariants=("no-tool-on-length-stop",),
        script=then_recover(
            _stopped(
                Reply().call("purge", raw="{", problem="broken"), "length", "output limit at the first brace"
            )
        ),
        tools=(PURGE, RECORD),
        without=BROKEN_JSON,
        requirements=("A21",),
        hint="A fall-back to {} runs this tool with the scope /.",
    ),
    Scenario(
        id="length-whole-arguments",
        summary="The output limit was reached although the arguments happen to be whole.",
        invariants=("no-tool-on-length-stop",),
        script=then_recover(_stopped(record(), "length", "output limit after whole arguments")),
        requirements=("A21",),
        hint="The turn was cut all the same; more calls or a correction may have been under way.",
    ),
)


def _withdrawn() -> Iterator[Scenario]:
    kinds = {
        "filter": (
            "A content filter stopped the model",
            "the provider withdrew the turn, its calls included",
        ),
        "refusal": ("The model refuses", "what was written before the refusal is withdrawn"),
        "unknown": ("The finish reason is unknown", "what an unknown reason permits is not known"),
    }
    for kind, (words, why) in kinds.items():
        without = _SAME_AS_REFUSAL if kind == "filter" else ()
        yield Scenario(
            id=f"{kind}-after-call",
            summary=f"{words} after a whole call.",
            invariants=_WITHDRAWN,
            script=then_recover(_stopped(record(), kind, f"{kind} after a whole call")),
            without=without,
            hint=f"The call is whole, and {why}.",
        )
        if kind != "unknown":
            yield Scenario(
                id=f"{kind}-in-text",
                summary=f"{words} in the middle of the text.",
                invariants=("refusal-is-visible",),
                script=then_recover(_stopped(Reply().text(_PARTIAL), kind, f"{kind} in the text")),
                without=without,
                hint="Whoever gets this text cannot tell that it is not the answer.",
            )


def _errors_after_a_call() -> Iterator[Scenario]:
    ends = {
        "end": ("", "and the body ends"),
        "done": ("-then-done", "and the completion marker follows"),
        "rest": ("-then-finish", "and the stream goes on to its finish reason"),
    }
    for then, (suffix, words) in ends.items():
        yield Scenario(
            id=f"error-after-call{suffix}",
            summary=f"After a whole call the provider reports an error, {words}.",
            invariants=("no-tool-on-withdrawn-call", "no-success-on-error-event"),
            script=then_recover(record().error("overloaded", then=then).named(f"error event, then {then}")),
            modes=("stream",),
            requirements=("A18",),
            hint="An error after the call takes the whole turn back.",
        )


_NO_REASON = (
    Scenario(
        id="missing-finish-after-call",
        summary="The call is whole and the end is marked, but no finish reason was given.",
        invariants=("no-tool-on-incomplete-stream",),
        script=then_recover(_stopped(record(), "missing", "no finish reason after a whole call")),
        hint="The finish reason is what permits the call; its place is empty.",
    ),
    Scenario(
        id="missing-finish-in-text",
        summary="The text ends and the end is marked, but no finish reason was given.",
        invariants=("no-success-on-incomplete-stream",),
        script=then_recover(_stopped(Reply().text(_PARTIAL), "missing", "no finish reason after a text")),
        dialects=("openai-chat",),
        hint="Whether the text is whole or cut off, only the finish reason says.",
    ),
)

_CUT_BY_ERROR = (
    Scenario(
        id="error-inside-value",
        summary="In the middle of an argument's value the provider reports an error.",
        invariants=("no-tool-on-incomplete-stream", "no-success-on-error-event"),
        script=then_recover(
            Reply()
            .call("shell", raw=('{"command": "rm -rf {nonce}/', 'build"}'))
            .error("server", at=after_piece(0))
            .named("error event inside the value of command")
        ),
        tools=(SHELL, RECORD),
        modes=("stream",),
        hint="The call never became whole, and the provider says so.",
    ),
    Scenario(
        id="error-in-text",
        summary="In the middle of the text the provider reports an error, then sends the completion marker.",
        invariants=("no-success-on-error-event",),
        script=then_recover(
            Reply().text(_PARTIAL, "that you seek.").error("overloaded", at=BEFORE_FINISH, then="done")
        ),
        modes=("stream",),
        requirements=("A18",),
        hint="The text looks like an answer, and the provider says that it is none.",
    ),
)

SCENARIOS = (*_LENGTH, *_withdrawn(), *_errors_after_a_call(), *_NO_REASON, *_CUT_BY_ERROR)
