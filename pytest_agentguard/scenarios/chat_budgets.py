"""Chat under budgets: providers that fail for ever, models that never finish, and what may be tried again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agentguard import START, Lane, Limits, Reply, Scenario, Setup
from pytest_agentguard.scenarios._replies import answer, record, recovery, then_recover

_SPENT = ("budget-spent-on-failure", "no-request-past-budget")
_FOR_EVER = 8  # more often than any agent asks that keeps to its limits
_STREAM = ("stream",)


def _lanes(replies: Mapping[str, Reply]) -> Any:
    """Lanes in which nothing but this is ever answered."""
    return lambda setup: [Lane(label, [reply.times(_FOR_EVER)]) for label, reply in replies.items()]


# -- attempts -----------------------------------------------------------------------------------------

_FAILURES = {
    "status-500": Reply().status(500),
    "status-503": Reply().status(503),
    "status-429": Reply().status(429),
    "reset": record().reset(START).named("reset after the head"),
    "cut": record().protocol_cut(START).named("closed after the head"),
    "cut-in-text": Reply().text("The answer is not ", "this.").protocol_cut(20).named("cut in the text"),
}


def _silent(setup: Setup) -> list[Lane]:
    replies = {
        "no-head": record().hold(START).named("held before the head"),
        "no-body": record().stall(START).named("no body after the head"),
    }
    return [Lane(label, [reply.times(_FOR_EVER)]) for label, reply in replies.items()]


def _attempts() -> Iterator[Scenario]:
    yield Scenario(
        id="every-attempt-fails",
        summary="Every request fails, by a status or a lost connection, under a budget of two attempts.",
        invariants=(*_SPENT, "exhaustion-is-not-success"),
        lanes=_lanes(_FAILURES),
        limits=Limits(attempts=2),
        requirements=("B05", "B06", "B14", "D04"),
        hint="Every layer that tries again counts: the provider sees two requests, and no third one.",
    )
    yield Scenario(
        id="every-attempt-times-out",
        summary="Every response falls silent before its head or after it, under a budget of two attempts.",
        invariants=(*_SPENT, "exhaustion-is-not-success"),
        lanes=_silent,
        limits=Limits(attempts=2, idle_timeout=0.5),
        requirements=("B07", "D04"),
        hint="A request that timed out has arrived all the same, and is counted.",
    )
    yield Scenario(
        id="failures-within-budget",
        summary="Two turns fail twice each and then succeed, under a budget of three attempts for each.",
        invariants=(*_SPENT, "idempotency-key-stable"),
        script=_within,
        limits=Limits(attempts=3),
        modes=_STREAM,
        requirements=("D04",),
        hint="Each turn has a budget of its own, and to use it up is right.",
    )


def _within(setup: Setup) -> list[Reply]:
    failed = Reply().status(503)
    optional = failed.optional()
    turn = record().optional()
    return [failed, optional, turn, optional.times(2), recovery(setup)]


# -- waits that the provider asks for -------------------------------------------------------------------


def _shortly(setup: Setup) -> list[Lane]:
    statuses = (429, 503)
    return [
        Lane(f"status-{status}", [Reply().status(status, retry_after=2), recovery(setup)])
        for status in statuses
    ]


def _waits() -> Iterator[Scenario]:
    yield Scenario(
        id="retry-after-two-seconds",
        summary="The provider is busy and says to come back in two seconds.",
        invariants=("retry-after-respected", "no-request-past-budget"),
        lanes=_shortly,
        limits=Limits(attempts=2),
        modes=_STREAM,
        hint="To come back in two seconds, or not at all, is right; to come back at once is not.",
    )
    yield Scenario(
        id="retry-after-an-hour",
        summary="The provider says to come back in an hour, and the run has half a second.",
        invariants=("retry-after-bounded", "retry-after-respected"),
        script=then_recover(Reply().status(429, retry_after=3600)),
        limits=Limits(attempts=2, deadline=0.5),
        modes=_STREAM,
        seconds=7.0,
        hint="A wait that does not fit into the run is a failure now, not in an hour.",
    )


# -- what must not be asked again -----------------------------------------------------------------------

_REFUSALS = {f"status-{status}": Reply().status(status) for status in (400, 401, 403, 404, 422)}


def _same_again(setup: Setup) -> list[Lane]:
    said = Reply().text("Let me see.")
    broken = Reply().call("record", raw='{"x": "{nonce}-evidence', problem="broken")
    replies = {
        "length": said.finish("length").named("stopped at the output limit"),
        "filter": said.finish("filter").named("stopped by a filter"),
        "refusal": said.finish("refusal").named("refused by the model"),
        "broken-call": broken.named("the same broken call"),
    }
    return [
        Lane(label, [reply, reply.optional().times(_FOR_EVER - 1)])
        for label, reply in replies.items()
        if label != "broken-call" or setup.mode == "stream" or setup.dialect.id != "anthropic"
    ]


def _is_untold(request: Any) -> bool:
    """Whether a request tells of no result of a tool: it is the first one, or the first one again."""
    return "done k" not in request.body


def _after_a_tool(setup: Setup) -> list[Lane]:
    failures = {
        "status": Reply().status(503),
        "reset": Reply().text("The answer is ", "not this.").reset(),
        "cut": Reply().text("The answer is ", "not this.").cut(),
    }
    replay = record().on(matches=_is_untold).named("the same call again").optional().times(4)
    return [
        Lane(label, [record(), failure.optional(), replay, recovery(setup)])
        for label, failure in failures.items()
    ]


def _never_again() -> Iterator[Scenario]:
    yield Scenario(
        id="refused-requests",
        summary="The provider refuses the request: 400, 401, 403, 404 and 422, side by side.",
        invariants=("no-retry-on-refusal", "no-request-past-budget"),
        lanes=_lanes(_REFUSALS),
        limits=Limits(attempts=3),
        hint="There is budget left, and yet the same request would be refused again.",
    )
    yield Scenario(
        id="same-ending-every-time",
        summary="The output limit, a filter, a refusal or a broken call, however often the agent asks.",
        invariants=("same-failure-not-retried",),
        lanes=_same_again,
        limits=Limits(attempts=3, rounds=4),
        modes=_STREAM,
        hint="The same request ends in the same way; only another one can end differently.",
    )
    yield Scenario(
        id="failure-after-a-tool",
        summary="A tool has run, then the next turn fails.",
        invariants=("no-replay-after-effect", "no-request-past-budget"),
        lanes=_after_a_tool,
        limits=Limits(attempts=2),
        modes=_STREAM,
        hint="What failed is the second turn; to begin again with the first one does the work twice.",
    )


# -- rounds and calls -----------------------------------------------------------------------------------


def _endless(setup: Setup) -> list[Reply]:
    return [record(), record().optional().times(_FOR_EVER)]


def _four_calls(setup: Setup) -> list[Reply]:
    batch = Reply().text("Let me record all of it.")
    for n in range(4):
        batch = batch.call("record", x=f"{{nonce}}-part-{n}")
    return [batch.named("four calls"), answer(setup).times(_FOR_EVER)]


def _rounds() -> Iterator[Scenario]:
    yield Scenario(
        id="tool-in-every-turn",
        summary="The model calls the tool in every turn and never answers, under a limit of three rounds.",
        invariants=("rounds-bounded", "exhaustion-is-not-success"),
        script=_endless,
        limits=Limits(rounds=3),
        requirements=("D04",),
        hint="The run ends after three turns, and its caller can tell that there is no answer.",
    )
    yield Scenario(
        id="batch-above-tool-limit",
        summary="The model asks for four calls in one turn, under a limit of two.",
        invariants=("limit-checked-first", "exhaustion-is-not-success"),
        script=_four_calls,
        limits=Limits(tool_calls=2),
        hint="Either all of a batch may run or none of it does.",
    )


SCENARIOS = (*_attempts(), *_waits(), *_never_again(), *_rounds())
