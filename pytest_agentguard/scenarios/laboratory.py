"""The nine checks of a published audit: does a tool that makes requests really stop? Eight arrive in all."""

from __future__ import annotations

from pytest_agentguard import Cancel, FetchCall, FetchScript, Limits, Route, Scenario

_ROUTES = (
    Route(path="/allowed"),
    Route(path="/forbidden", allowed=False),
    Route(path="/redirect", does="redirect", status=302, to="/forbidden"),
    Route(path="/down", does="fail", status=503),
    Route(path="/drop", does="drop"),
    Route(path="/hold", does="hold"),
    Route(path="/effect", does="hold", effect=True),
)
_LISTED = {name: f"/{name}" for name in ("allowed", "redirect", "down", "drop", "hold", "effect")}


def _check(
    id: str,
    summary: str,
    invariants: tuple[str, ...],
    calls: tuple[FetchCall, ...],
    hint: str,
    *rows: str,
    limits: Limits | None = None,
    cancel: Cancel | None = None,
) -> Scenario:
    return Scenario(
        id=f"laboratory-{id}",
        summary=summary,
        invariants=invariants,
        surface="fetch",
        fetch=FetchScript(routes=_ROUTES, allowed=_LISTED, calls=calls),
        limits=limits or Limits(attempts=2),
        cancel=cancel,
        requirements=rows,
        hint=hint,
    )


_REFUSED = ("elsewhere", "{first}/allowed", "{first}/forbidden")

SCENARIOS = (
    _check(
        "control",
        "An allowed request arrives, and is answered.",
        ("no-request-past-budget", "nothing-left-behind"),
        (FetchCall("allowed"),),
        "A tool that makes no request, or two, for an allowed id cannot be judged by what arrives.",
        "B01",
    ),
    _check(
        "refused-inputs",
        "An id that is not on the list, and URLs: nothing arrives.",
        ("nothing-forbidden-arrives",),
        tuple(FetchCall(text, allowed=False) for text in _REFUSED),
        "Only the ids on the list are allowed; everything else has to be refused before anything is sent.",
        "B02",
        "B03",
    ),
    _check(
        "redirect",
        "An allowed place points to a forbidden one: one request arrives, and none at the target.",
        ("redirect-not-followed",),
        (FetchCall("redirect"),),
        "The list allows the place that was asked for, not the one that its server points to.",
        "B04",
        limits=Limits(attempts=1),
    ),
    _check(
        "budget",
        "The server answers 503 for ever, and the budget is two: two requests arrive.",
        ("budget-spent-on-failure", "no-request-past-budget"),
        (FetchCall("down"),) * 3,
        "An attempt that failed has arrived too: it is spent, and the budget is for all of them.",
        "B05",
    ),
    _check(
        "dropped-connection",
        "The request is read and the connection closed: that was the budget.",
        ("budget-spent-on-failure", "no-request-past-budget"),
        (FetchCall("drop"),) * 2,
        "What the server has read was sent, whatever came back: the one attempt is spent.",
        "B06",
        limits=Limits(attempts=1),
    ),
    _check(
        "request-timeout",
        "The response is held: the request ends at its timeout, and no other follows.",
        ("timeout-ends-call", "no-call-after-stop", "nothing-left-behind"),
        (FetchCall("hold"),) * 2,
        "A request that is not answered ends at its timeout, and it has cost what there was.",
        "B07",
        limits=Limits(attempts=1, request_timeout=0.25),
    ),
    _check(
        "supervisor-deadline",
        "The supervisor's deadline comes before the timeout of the request: it ends the run.",
        ("deadline-ends-run", "no-call-after-stop", "nothing-left-behind"),
        (FetchCall("effect"),) * 2,
        "The deadline is for the whole run: it ends the call that is waiting, and allows none after it.",
        "B08",
        limits=Limits(attempts=4, request_timeout=8.0, deadline=0.35),
    ),
    _check(
        "cancel-after-receipt",
        "The call is cancelled once the server has the request; the effect happens all the same.",
        ("cancel-stays-cancelled", "no-call-after-stop", "cancel-is-not-rollback"),
        (FetchCall("effect"),) * 2,
        "A stop is for the whole run, and takes nothing back that the server has received.",
        "B09",
        "B10",
        cancel=Cancel(at="request"),
    ),
    _check(
        "clean-up",
        "A tool is made, refuses its input and is closed: nothing of it is left.",
        ("nothing-left-behind",),
        (FetchCall("elsewhere", allowed=False),),
        "Whatever a tool has opened ends with it.",
        "B11",
    ),
)
