"""Fetch tools that have to stop: at a timeout, at a deadline, by a cancel, with an effect under way."""

from __future__ import annotations

from pytest_agentguard import Cancel, FetchCall, FetchScript, Limits, Route, Scenario
from pytest_agentguard.scenarios._stops import AFTER_CANCEL

_SLOW = Route(path="/slow", does="hold")
_ORDER = Route(path="/order", does="hold", effect=True)  # its effect comes when it is released, whoever waits


def _slow(calls: int) -> FetchScript:
    return FetchScript(routes=(_SLOW,), allowed={"slow": "/slow"}, calls=(FetchCall("slow"),) * calls)


def _orders(calls: int, workers: int = 1) -> FetchScript:
    return FetchScript(
        routes=(_ORDER,),
        allowed={"order": "/order"},
        calls=(FetchCall("order", workers=workers), *(FetchCall("order"),) * (calls - 1)),
        method="POST",
        body='{"amount": 1}',
    )


SCENARIOS = (
    Scenario(
        id="fetch-timeout",
        summary="A response is held, and the budget has no second request.",
        invariants=(
            "timeout-ends-call",
            "timeout-is-not-cancel",
            "no-call-after-stop",
            "every-wait-has-an-exit",
            "nothing-left-behind",
        ),
        surface="fetch",
        fetch=_slow(2),
        limits=Limits(request_timeout=0.25, attempts=1),
        requirements=("B07", "B11"),
        hint="The request has had its time, and it has cost what there was.",
    ),
    Scenario(
        id="fetch-stall-in-body",
        summary="The head and the first kilobyte of the body come, and nothing after that.",
        invariants=(
            "timeout-ends-call",
            "timeout-is-not-cancel",
            "no-call-after-stop",
            "every-wait-has-an-exit",
            "nothing-left-behind",
        ),
        surface="fetch",
        fetch=FetchScript(
            routes=(Route(path="/body", does="hold", size=1024),),
            allowed={"body": "/body"},
            calls=(FetchCall("body"), FetchCall("body")),
        ),
        limits=Limits(request_timeout=0.25, attempts=1),
        requirements=("A23", "B07"),
        hint="A timeout that is over once the head has come never ends this.",
    ),
    Scenario(
        id="fetch-deadline",
        summary="The deadline of all calls passes before the timeout of the first of them.",
        invariants=(
            "deadline-ends-run",
            "timeout-is-not-cancel",
            "no-call-after-stop",
            "nothing-left-behind",
        ),
        surface="fetch",
        # the server lets go long before the timeout of the request: only the deadline ends the call in time
        fetch=_orders(2),
        limits=Limits(request_timeout=8.0, deadline=0.35),
        requirements=("A16", "B08", "B11"),
        hint="The deadline is one for all calls; none of them starts it again.",
    ),
    Scenario(
        id="fetch-cancel-before-send",
        summary="The tool is cancelled before it has sent its request.",
        invariants=AFTER_CANCEL,
        surface="fetch",
        fetch=_orders(2),
        cancel=Cancel(at="before-send"),
        requirements=("B09", "B17"),
        hint="What has not begun does not begin.",
    ),
    Scenario(
        id="fetch-cancel-in-request",
        summary="The tool is cancelled when the server has its request; the effect comes all the same.",
        invariants=(*AFTER_CANCEL, "cancel-is-not-rollback", "every-wait-has-an-exit"),
        surface="fetch",
        fetch=_orders(2),
        cancel=Cancel(at="request"),
        requirements=("B09", "B10", "B11", "B16", "B17", "D09"),
        hint="The order is with the server; nobody can say that it was not placed.",
    ),
    Scenario(
        id="fetch-cancel-workers",
        summary="Four workers of one tool are cancelled when the server has the request of each.",
        invariants=AFTER_CANCEL,
        surface="fetch",
        fetch=_orders(2, workers=4),
        limits=Limits(attempts=8),
        cancel=Cancel(at="request", nth=4),
        requirements=("B09", "B17"),
        hint="A stop is for all that work under it.",
    ),
)
