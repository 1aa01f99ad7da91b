"""Fetch tools under budgets: what fails is counted, what is refused is not, and workers share."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agentguard import FetchCall, FetchScript, Limits, Route, Scenario

_SPENT = ("budget-spent-on-failure", "no-request-past-budget", "exhaustion-is-not-success")


def _one(route: Route, *calls: FetchCall, method: str = "GET") -> FetchScript:
    """A tool that may fetch ``one``, which is this route."""
    body = '{"order": 1}' if method == "POST" else ""
    return FetchScript(routes=(route,), allowed={"one": route.path}, calls=calls, method=method, body=body)


def _times(count: int) -> tuple[FetchCall, ...]:
    return tuple(FetchCall("one") for _ in range(count))


# -- attempts -----------------------------------------------------------------------------------------


def _failures() -> Iterator[Scenario]:
    yield Scenario(
        id="fetch-503-for-ever",
        summary="The server answers 503 for ever, under a budget of two requests for all calls.",
        invariants=_SPENT,
        surface="fetch",
        fetch=_one(Route(path="/busy", does="fail", status=503), *_times(3)),
        limits=Limits(attempts=2),
        requirements=("B05", "B14"),
        hint="Two requests arrive, and the call after them is refused without a third.",
    )
    yield Scenario(
        id="fetch-dropped",
        summary="The server reads the request and closes without an answer, under a budget of one request.",
        invariants=_SPENT,
        surface="fetch",
        fetch=_one(Route(path="/drop", does="drop"), *_times(2)),
        limits=Limits(attempts=1),
        requirements=("B06",),
        hint="The request has arrived, whatever became of the answer: the one attempt is spent.",
    )
    yield Scenario(
        id="fetch-cut",
        summary="The body ends long before its declared length, under a budget of two requests.",
        invariants=_SPENT,
        surface="fetch",
        fetch=_one(Route(path="/cut", does="partial", size=10), *_times(3)),
        limits=Limits(attempts=2),
        hint="A body that was cut has cost an attempt.",
    )
    yield Scenario(
        id="fetch-timeouts-spent",
        summary="The server holds every answer, under a budget of two requests of a quarter second each.",
        invariants=_SPENT,
        surface="fetch",
        fetch=_one(Route(path="/hold", does="hold", seconds=5.0), *_times(3)),
        limits=Limits(attempts=2, request_timeout=0.25),
        requirements=("B07",),
        hint="A request that timed out is at the server all the same.",
    )


def _sharing() -> Iterator[Scenario]:
    yield Scenario(
        id="fetch-refusals-are-free",
        summary="Inputs that are not on the list are refused, then an allowed one has the only attempt.",
        invariants=("refusal-is-free", "no-request-past-budget"),
        surface="fetch",
        fetch=_one(
            Route(path="/one"),
            FetchCall("two", allowed=False),
            FetchCall("{first}/one", allowed=False),
            FetchCall("one"),
        ),
        limits=Limits(attempts=1),
        requirements=("B03",),
        hint="Nothing was sent for the refused inputs, so nothing is counted.",
    )
    for id, words, route in (
        ("fetch-eight-workers", "slow", Route(path="/slow", does="slow", seconds=0.3)),
        ("fetch-eight-workers-fail", "failing", Route(path="/busy", does="fail", status=503)),
    ):
        yield Scenario(
            id=id,
            summary=f"Eight workers ask a {words} server at once, under one budget of three requests.",
            invariants=("budget-shared", "no-request-past-budget"),
            surface="fetch",
            fetch=_one(route, FetchCall("one", workers=8), FetchCall("one")),
            limits=Limits(attempts=3),
            requirements=("B13",),
            hint="Looking and taking is one step, or every worker finds the last attempt still there.",
        )


# -- what is tried again ----------------------------------------------------------------------------------


def _waits() -> Iterator[Scenario]:
    busy = Route(path="/busy", does="fail", status=429, retry_after="2", times=1, then=Route(path="/busy"))
    yield Scenario(
        id="fetch-retry-after",
        summary="The server is busy and says to come back in two seconds.",
        invariants=("retry-after-respected", "no-request-past-budget"),
        surface="fetch",
        fetch=_one(busy, *_times(1)),
        limits=Limits(attempts=2),
        hint="To come back in two seconds, or not at all, is right; to come back at once is not.",
    )
    yield Scenario(
        id="fetch-retry-after-an-hour",
        summary="The server says to come back in an hour, and the tool has half a second.",
        invariants=("retry-after-bounded",),
        surface="fetch",
        fetch=_one(Route(path="/busy", does="fail", status=503, retry_after="3600"), *_times(1)),
        limits=Limits(attempts=2, deadline=0.5),
        seconds=7.0,
        hint="A wait that does not fit into the deadline is a failure now, not in an hour.",
    )


def _again() -> Iterator[Scenario]:
    refused = tuple(
        Route(path=f"/{status}", does="fail", status=status) for status in (400, 401, 403, 404, 422)
    )
    yield Scenario(
        id="fetch-refused-by-server",
        summary="The server refuses the request: 400, 401, 403, 404 and 422, one call each.",
        invariants=("no-retry-on-refusal",),
        surface="fetch",
        fetch=FetchScript(
            routes=refused,
            allowed={route.path[1:]: route.path for route in refused},
            calls=tuple(FetchCall(route.path[1:]) for route in refused),
        ),
        limits=Limits(attempts=20),
        hint="There is budget left, and yet the same request would be refused again.",
    )
    flaky = Route(path="/orders", does="fail", status=503, times=1, then=Route(path="/orders", effect=True))
    yield Scenario(
        id="fetch-key-of-a-retry",
        summary="An order fails once and is tried again, then there is another order.",
        invariants=("idempotency-key-stable",),
        surface="fetch",
        fetch=_one(flaky, *_times(2), method="POST"),
        limits=Limits(attempts=4),
        requirements=("B18",),
        hint="One key for one order, however often it is sent, and a new one for the next.",
    )
    done = Route(path="/orders", does="drop", effect=True, times=1, then=Route(path="/orders", effect=True))
    yield Scenario(
        id="fetch-effect-then-drop",
        summary="The server carries out an order and closes without an answer.",
        invariants=("no-replay-after-effect",),
        surface="fetch",
        fetch=_one(done, *_times(1), method="POST"),
        limits=Limits(attempts=3),
        requirements=("B16",),
        hint="The order may have been carried out; sending it again needs a key by which it is known.",
    )


SCENARIOS = (*_failures(), *_sharing(), *_waits(), *_again())
