"""The story of a fetch tool: what it was asked, what the server did, what arrived, what it said."""

from __future__ import annotations

from pytest_agentguard import Ledger
from pytest_agentguard.events import (
    EffectDone,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    RedirectOffered,
    RunEnded,
    StopRequested,
    StreamHeld,
    StreamReleased,
    Witness,
)
from pytest_agentguard.reports.told_fetch import FetchTelling

_SERVER, _RUNNER = Witness.COUNTING_SERVER, Witness.RUNNER
_HERE = "http://127.0.0.1:5000"


def started(call, input="one", **more):
    return FetchStarted(witness=_RUNNER, call=call, input=input, **more)


def ended(call, how="returned", **more):
    return FetchEnded(witness=_RUNNER, call=call, how=how, **more)


def received(request, path="/one", origin="first", root=_HERE):
    return HttpReceived(witness=_SERVER, request=request, url=root + path, origin=origin)


def told(*events):
    return {name: text for name, text in FetchTelling(Ledger(events)).rows() if text}


def test_a_call_that_goes_well_is_told_in_four_rows():
    ok = HttpAnswered(witness=_SERVER, request="h1", status=200, sent=10)
    assert told(started("f1"), received("h1"), ok, ended("f1", result="ok k1")) == {
        "asked": '"one"',
        "answered": "status 200, 10 bytes",
        "done": "1 request arrived; GET /one",
        "claimed": 'returned "ok k1"',
    }


def test_what_happens_again_is_counted():
    down = [HttpAnswered(witness=_SERVER, request=f"h{n}", status=503, failed=True) for n in (1, 2)]
    raised = [ended(f"f{n}", "raised", error_type="builtins.ValueError", error="down") for n in (1, 2)]
    assert told(started("f1"), received("h1"), started("f2"), received("h2"), *down, *raised) == {
        "asked": '"one" (2 times)',
        "answered": "status 503, 0 bytes (2 times)",
        "done": "2 requests arrived; GET /one (2 times)",
        "claimed": "raised ValueError: down (2 times)",
    }


def test_workers_and_inputs_that_are_not_allowed_are_said_to_be_so():
    uses = [started(f"f1.{n}") for n in (1, 2, 3)]
    assert told(*uses, started("f2", "http://x/", allowed=False))["asked"] == (
        '"one", 3 at once; "http://x/", not on its list'
    )


def test_a_redirect_names_another_origin_and_not_its_own():
    there = RedirectOffered(witness=_SERVER, request="h1", status=302, location=f"{_HERE}/two")
    away = RedirectOffered(witness=_SERVER, request="h2", status=307, location="http://127.0.0.1:5001/two")
    answers = [HttpAnswered(witness=_SERVER, request=f"h{n}", status=302) for n in (1, 2)]
    assert told(started("f1"), received("h1"), received("h2"), there, away, *answers)["answered"] == (
        "302 to /two; 307 to http://127.0.0.1:5001/two"
    )


def test_a_stop_a_hold_and_an_effect_are_told():
    events = [
        started("f1"),
        received("h1"),
        StreamHeld(witness=_SERVER, stream="h1", hold="h1.hold", why="hold"),
        StopRequested(witness=_RUNNER),
        ended("f1", "cancelled", error_type="trio.Cancelled"),
        StreamReleased(witness=_SERVER, stream="h1", hold="h1.hold", by="run-ended"),
        EffectDone(witness=_SERVER, request="h1", count=1),
        HttpAnswered(witness=_SERVER, request="h1", end="client-left"),
        RunEnded(witness=_RUNNER, how="cancelled"),
    ]
    assert told(*events) == {
        "asked": '"one"; cancelled',
        "answered": "held until the run had ended",
        "done": "1 request arrived; GET /one; effects=1",
        "claimed": "cancelled trio.Cancelled",
    }


def test_a_run_that_was_killed_says_so_beside_the_calls_that_ended():
    events = [started("f1"), ended("f1", result="ok"), started("f2"), RunEnded(witness=_RUNNER, how="killed")]
    assert told(*events)["claimed"] == 'returned "ok"; nothing: killed at the hard deadline'


def test_only_the_first_of_many_are_named():
    uses = [started(f"f{n}", f"id-{n}") for n in range(1, 6)]
    assert told(*uses)["asked"] == '"id-1"; "id-2"; "id-3"; 2 more'
