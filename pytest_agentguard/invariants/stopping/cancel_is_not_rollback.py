"""What a server or a tool had done already is not reported as if it had not happened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import (
    CallOffered,
    EffectDone,
    Event,
    FetchEnded,
    FetchStarted,
    HttpReceived,
    RunEnded,
    RunStarted,
    StopRequested,
    ToolFinished,
    ToolStarted,
    Witness,
)

_DENIED = re.compile(
    r"roll(ed|ing|s)?[ -]?back|undone|reverted"
    r"|(not|never|n't) (been )?(sent|made|done|run|ran|executed|performed|applied|happen(ed)?|take place)"
    r"|nothing (was|has been|had been) (sent|done|changed|run|executed)"
    r"|(no|without( any)?) (side[ -]?)?(effects?|changes?)\b",
    re.IGNORECASE,
)
_LEFT_OPEN = re.compile(
    r"unknown|may\b|might|could|whether|uncertain|unclear|assume|possibl|perhaps|verify|not a roll",
    re.IGNORECASE,
)


def check(ledger: Ledger) -> Iterator[Finding]:
    """A claim is held against what the server, or the tool, has witnessed; to leave it open is right."""
    for stop in reading.stops(ledger):
        for effect in _effects(ledger, stop):
            for told, text in _told(ledger, effect):
                yield exercised(stop, effect, told)
                denial = _denial(text)
                if denial:
                    yield violated(
                        f"reported={reading.brief(denial)} although the effect happened, {_shown(effect)}",
                        stop, effect, told,
                    )  # fmt: skip


def _effects(ledger: Ledger, stop: StopRequested) -> Iterator[EffectDone | ToolFinished]:
    """Of requests that the server had read before the stop, and of tools that had finished by then."""
    for effect in ledger.of(EffectDone):
        asked = ledger.first(HttpReceived, request=effect.request)
        if asked is not None and asked.seq < stop.seq:
            yield effect
    yield from ledger.before(stop, ToolFinished)


def _told(ledger: Ledger, effect: EffectDone | ToolFinished) -> Iterator[tuple[RunEnded | FetchEnded, str]]:
    """What was said of it: by the call that asked for it, and by the run where that is the only call."""
    if isinstance(effect, EffectDone):
        asked = ledger.first(HttpReceived, request=effect.request)
        found = reading.fetch_of(ledger, asked) if asked is not None else None
        if found is not None and found[1] is not None:
            yield found[1], f"{found[1].error} {found[1].result}"
        return
    end = ledger.first_after(effect, RunEnded)
    started = {start.call for start in ledger.of(ToolStarted)}
    if end is not None and all(offer.call in started for offer in ledger.of(CallOffered)):
        yield end, " ".join(filter(None, (end.answer, end.error, end.kept)))


def _denial(text: str) -> str:
    """The first sentence that denies it, unless one says that it is not known."""
    if _LEFT_OPEN.search(text):
        return ""
    return next((part for part in re.split(r"[.;\n]", text) if _DENIED.search(part)), "").strip()


def _shown(effect: Event) -> str:
    match effect:
        case EffectDone():
            return f"request={effect.request} route={effect.route} count={effect.count}"
        case ToolFinished():
            return f"tool={effect.tool} invocation={effect.invocation}"
    raise AssertionError(effect)


_JOB = RunStarted(witness=Witness.RUNNER)
_ASKED = FetchStarted(witness=Witness.RUNNER, call="f1", input="order")
_ARRIVED = HttpReceived(witness=Witness.COUNTING_SERVER, request="h1", url="http://127.0.0.1:80/order")
_STOP = StopRequested(witness=Witness.RUNNER, at="request")
_GONE = FetchEnded(witness=Witness.RUNNER, call="f1", how="cancelled", error="outcome unknown, verify")
_DENIES = replace(_GONE, error="cancelled: the request was not sent")
_EFFECT = EffectDone(witness=Witness.COUNTING_SERVER, request="h1", route="order", count=1)
_STORY = [_JOB, _ASKED, _ARRIVED, _STOP]

_OFFER = CallOffered(witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay", nonce="n1")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", invocation="i1", arguments={"x": "n1"})
_DONE = ToolFinished(witness=Witness.TOOL_SPY, tool="pay", invocation="i1")
_ENDED = RunEnded(witness=Witness.RUNNER, how="cancelled", error="cancelled")
_PAID = [_JOB, _OFFER, _RUN, _DONE, _STOP]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why="Who reads that nothing happened does it again, and then it has happened twice.",
    source="requirements B10, B16",
    remedy=(
        "Keep a record of what was begun and report everything without an answer as unknown: to be verified, "
        "neither done nor not done."
    ),
    occasion="an effect of a request or tool that had begun before the stop, and the end of its call",
    holds=[Ledger([*_STORY, _GONE, _EFFECT]), Ledger([*_PAID, _ENDED])],
    breaks=[
        Ledger([*_STORY, _DENIES, _EFFECT]),
        Ledger([*_STORY, replace(_GONE, error="cancelled and rolled back"), _EFFECT]),
        Ledger([*_PAID, replace(_ENDED, kept="Stopped. Nothing was done.")]),
    ],
    silent=[
        Ledger([*_STORY, replace(_GONE, error=""), _EFFECT]),
        Ledger(
            [
                *_STORY,
                replace(_GONE, error="not known whether it was sent: do not assume it was not run"),
                _EFFECT,
            ]
        ),
        Ledger([*_STORY, _DENIES]),
        Ledger(
            [
                *_PAID[:2],
                replace(_OFFER, call="s1.c2", nonce="n2"),
                *_PAID[2:],
                replace(_ENDED, error="c2 not run"),
            ]
        ),
    ],
    idle=[
        Ledger(),
        Ledger([_JOB, _ASKED, _ARRIVED, _EFFECT, _DENIES]),
        Ledger([_JOB, _ASKED, _STOP, _DENIES, _ARRIVED, _EFFECT]),
    ],
)
