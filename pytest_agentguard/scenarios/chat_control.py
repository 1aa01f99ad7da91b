"""Chat with nothing wrong: the control, and replies that look like a fault and are none."""

from __future__ import annotations

from pytest_agentguard import AFTER_FINISH, RECORD, Behaviour, Reply, Scenario, Setup, ToolSpec, after_event
from pytest_agentguard.scenarios._replies import answer, record, then_answer

_HEALTHY = ("tool-runs-once", "nothing-dropped-in-silence", "transcript-is-valid")

_REFRESH = ToolSpec(name="refresh", description="Refresh the view.")
_FAILING = ToolSpec(
    name="record",
    description="Record a value.",
    parameters=RECORD.parameters,
    behaviour=Behaviour(does="raise", error="the disk is full"),
)

_AWKWARD = '{nonce} "quoted" \\ back\tslash\nnew line; Größe, 漢字, 👩‍💻,  and \u2028.'


def _control(setup: Setup) -> list[Reply]:
    return [record(), Reply().text("The answer is ", setup.final)]


def _refresh(setup: Setup) -> list[Reply]:
    # an empty text is what the provider sends for a tool without parameters
    raw = "" if setup.dialect.id == "anthropic" else "{}"
    return [Reply().call("refresh", raw=raw), answer(setup)]


SCENARIOS = (
    Scenario(
        id="control",
        summary="The model calls a tool once, reads its result and answers.",
        invariants=_HEALTHY,
        script=_control,
        control=True,
        requirements=("A19", "D01"),
        hint="Nothing is wrong here; an agent that fails this proves nothing elsewhere.",
    ),
    Scenario(
        id="text-only",
        summary="The model answers at once, without a tool.",
        invariants=("nothing-dropped-in-silence",),
        script=lambda setup: [answer(setup)],
        hint="The text is the answer and has to come back whole.",
    ),
    Scenario(
        id="finish-stop-with-calls",
        summary="The finish reason says stop although calls are present.",
        invariants=_HEALTHY,
        script=then_answer(record().finish("stop")),
        dialects=("openai-chat",),
        hint="Providers end a turn like this when tool_choice names the function; the call is good.",
    ),
    Scenario(
        id="usage-after-finish",
        summary="A usage report follows the finish reason.",
        invariants=_HEALTHY,
        script=then_answer(record().usage()),
        hint="The finish event need not be the last one.",
    ),
    Scenario(
        id="finish-without-marker",
        summary="The finish reason has arrived, the completion marker after it has not.",
        invariants=("nothing-dropped-in-silence",),
        script=then_answer(record().cut(AFTER_FINISH).named("no completion marker")),
        modes=("stream",),
        requirements=("A19",),
        hint="Most clients cannot see that it is missing; to run the call and to refuse it are both right.",
    ),
    Scenario(
        id="one-keep-alive",
        summary="One keep-alive comes in mid-stream.",
        invariants=_HEALTHY,
        script=then_answer(record().keep_alive(after_event(2))),
        hint="A keep-alive is no event of the model and ends nothing.",
    ),
    Scenario(
        id="parallel-calls",
        summary="The model asks for two calls in one turn.",
        invariants=("calls-kept-apart", *_HEALTHY),
        script=then_answer(
            Reply().call("record", x="{nonce}-first").call("record", x="{nonce}-second", y="more")
        ),
        hint="Both calls run once, in any order, and both results go back together.",
    ),
    Scenario(
        id="tool-error-told",
        summary="The tool raises; the model is told and ends well.",
        invariants=("tool-runs-once", "transcript-is-valid"),
        script=then_answer(record()),
        tools=(_FAILING,),
        hint="A tool error is a result for the model, or a failure of the run; it is never silence.",
    ),
    Scenario(
        id="no-parameters",
        summary="A tool without parameters is called, with the emptiest arguments that the dialect has.",
        invariants=_HEALTHY,
        script=_refresh,
        tools=(_REFRESH, RECORD),
        prompt="Refresh the view, then answer.",
        hint="Empty arguments are right where there are no parameters.",
    ),
    Scenario(
        id="three-rounds",
        summary="The model calls the tool in three turns, one after the other.",
        invariants=_HEALTHY,
        script=then_answer(
            record(),
            Reply().call("record", x="{nonce}-second-round"),
            Reply().call("record", x="{nonce}-third-round"),
        ),
        hint="Each call runs once, and each result follows its call.",
    ),
    Scenario(
        id="awkward-arguments",
        summary="The arguments hold quotes, escapes, line ends and characters of several bytes.",
        invariants=_HEALTHY,
        script=then_answer(Reply().call("record", x=_AWKWARD)),
        hint="What the model wrote arrives at the tool character by character.",
    ),
)
