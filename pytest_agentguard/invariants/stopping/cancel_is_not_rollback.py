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

_CARRIED_OUT = (  # what has become of an order, and what a denial says not to have become of it
    r"(?:sent|made|done|run|ran|placed|submitted|executed|performed|applied|changed|created|paid|charged"
    r"|carried out|happen(?:ed)?|t[ao]ken? (?:place|effect)|took (?:place|effect)"
    r"|(?:go|gone|went) through|reach(?:ed)? the server)\b(?! (?:again|twice|a second time|any ?more))"
)
_ORDER = r"(?:it|this|that|anything|the (?:order|request|call|tool|action|payment|effect))"
_DENIED = re.compile(
    rf"(?:\bnot|\bnever|n['’]t) (?:yet )?(?:have )?(?:been |be )?{_CARRIED_OUT}"
    rf"|\bnothing (?!more|else|further)(?:(?!un)\w+ ){{0,3}}?{_CARRIED_OUT}"
    r"|\bno (?!further|other|more|new|second|roll|undo|refund|retr|effect)(?:\w+ ){1,3}?"
    rf"(?:was|were|(?:has|have|had) been) {_CARRIED_OUT}"
    rf"|\bbefore {_ORDER} (?:\w+ ){{0,3}}?(?:effects?\b|{_CARRIED_OUT})"
    r"|\b(?:no|without(?: any)?) (?:side[ -]?)?(?:effects?|changes?)\b(?! on\b)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(r"\broll(?:ed|ing|s)?[ -]?back\b|\bundone\b|\breverted\b", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:no|not|nothing|never|cannot|none|without)\b|n['’]t\b", re.IGNORECASE)
_LEFT_OPEN = re.compile(
    r"unknown|may\b|might|could|whether|uncertain|unclear|assume|possibl|perhaps|verif(?:y|ied)",
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
    """The first sentence that denies it, unless one says that it is not known.

    A test of words, in English: a denial in other words is missed, and nobody is accused of saying nothing.
    """
    if _LEFT_OPEN.search(text):
        return ""
    return next((part for part in re.split(r"[.;\n]", text) if _denies(" ".join(part.split()))), "").strip()


def _denies(sentence: str) -> bool:
    """That nothing has become of it, or that it was taken back; that it was not taken back is true."""
    back = _TAKEN_BACK.search(sentence)
    is_back = back is not None and _NEGATION.search(sentence[: back.start()]) is None
    return is_back or _DENIED.search(sentence) is not None


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
_STORY: list[Event] = [_JOB, _ASKED, _ARRIVED, _STOP]

_OFFER = CallOffered(witness=Witness.ENDPOINT, stream="s1", call="s1.c1", tool="pay", nonce="n1")
_RUN = ToolStarted(witness=Witness.TOOL_SPY, tool="pay", invocation="i1", arguments={"x": "n1"})
_DONE = ToolFinished(witness=Witness.TOOL_SPY, tool="pay", invocation="i1")
_ENDED = RunEnded(witness=Witness.RUNNER, how="cancelled", error="cancelled")
_PAID: list[Event] = [_JOB, _OFFER, _RUN, _DONE, _STOP]

INVARIANT = Invariant(
    check,
    level=Level.MUST,
    why=(
        "Who reads that nothing happened does it again, and then it has happened twice. Looked for are "
        "English phrases such as *was not sent* or *nothing happened*; a denial in other words is not found."
    ),
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
        Ledger([*_STORY, replace(_GONE, error="stopped before it had any effect"), _EFFECT]),
    ],
    silent=[
        Ledger([*_STORY, replace(_GONE, error=""), _EFFECT]),
        Ledger([*_STORY, replace(_GONE, error="cancelled; nothing was undone"), _EFFECT]),
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
