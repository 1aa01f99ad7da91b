"""A run that got a page, an error body or a wrong content type with status 200 does not report success."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ErrorSent, ReplyStarted, RunEnded, RunStarted, StreamEnded, Witness

_NAMES = {
    "html": ("html", "content-type", "content type", "content_type", "doctype", "it works"),
    "challenge": (
        "html",
        "content-type",
        "content type",
        "content_type",
        "doctype",
        "just a moment",
        "challenge",
    ),
    "json-error": ("json", "content-type", "content type", "content_type", "scripted"),
    "content-type": ("content-type", "content type", "content_type"),
}
_FAULTS = (*_NAMES, "raw-body")


def check(ledger: Ledger) -> Iterator[Finding]:
    """A failure whose error does not say what came is a debatable practice."""
    for end, reply in reading.ended(ledger):
        if reply is None or reply.status != 200 or reply.fault not in _FAULTS or not end.fired:
            continue
        outcome = reading.outcome_of(ledger, reply)
        if outcome is None:
            continue
        yield exercised(reply, end, outcome)
        came = f"stream={end.stream} status=200 content_type={reply.content_type} fault={reply.fault}"
        if reading.false_success(ledger, end, itself=True) is not None:
            yield violated(
                f"run returned, {came}, answer={reading.brief(outcome.answer)}", reply, end, outcome
            )
        elif not _says_what_came(ledger, reply, outcome):
            yield violated(
                f"error={reading.brief(outcome.error)} does not name what came, {came}",
                reply, end, outcome,
                level=Level.MAY,
            )  # fmt: skip


def _says_what_came(ledger: Ledger, reply: ReplyStarted, outcome: RunEnded) -> bool:
    """Whether the error names it; True where no error was shown, or it is about a later reply."""
    later = ledger.first_after(reply, ReplyStarted)
    is_last = later is None or later.seq > outcome.seq
    if outcome.how not in ("raised", "failed") or outcome.error is None or not is_last:
        return True
    if reply.fault == "content-type" and not reply.finish:
        return True  # a body of somebody's own: an error that quotes it cannot be recognised
    kinds = [error.kind for error in ledger.of(ErrorSent, stream=reply.stream)]
    names = [*_NAMES.get(reply.fault, ()), *kinds, reply.content_type.partition(";")[0]]
    text = " ".join((outcome.error, outcome.error_type or "", *outcome.error_chain)).lower()
    return reply.fault not in _NAMES or any(name and name.lower() in text for name in names)


_JOB = RunStarted(witness=Witness.RUNNER, final="final-n9")
_PAGE = ReplyStarted(
    witness=Witness.ENDPOINT, stream="s1", request="r1", content_type="text/html", fault="html"
)
_END = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False)
_RETRY = ReplyStarted(witness=Witness.ENDPOINT, stream="s2", request="r2")
_WHOLE = StreamEnded(witness=Witness.ENDPOINT, stream="s2", complete=True)
_RETURNED = RunEnded(witness=Witness.RUNNER, how="returned", answer="")
_SUCCESS = replace(_RETURNED, answer="final-n9")
_NAMED = RunEnded(witness=Witness.RUNNER, how="raised", error="the reply is text/html", error_type="BadReply")
_MUTE = replace(_NAMED, error="", error_type="AssertionError")
_ERROR_BODY = replace(_PAGE, content_type="application/json", fault="json-error")
_ERROR = ErrorSent(witness=Witness.ENDPOINT, stream="s1", kind="overloaded", where="body")

INVARIANT = Invariant(
    check,
    level=Level.SHOULD,
    why=(
        "Proxies and providers answer with pages and error bodies under status 200. Read as a model's "
        "answer they become an empty success, and the caller never learns why."
    ),
    source="wire facts §4.3 (200 text/html, 200 JSON body); requirement A22; known defect 2",
    remedy="Check content type and shape of the answer, raise when they are foreign, and quote what came.",
    occasion=(
        "a page, an error body or a wrong content type with status 200, and the end of the run witnessed"
    ),
    holds=[
        Ledger([_JOB, _PAGE, _END, _NAMED]),
        Ledger([_JOB, _PAGE, _END, _RETRY, _WHOLE, _SUCCESS]),
        Ledger([_JOB, _ERROR_BODY, _ERROR, _END, replace(_NAMED, error="overloaded (scripted)")]),
    ],
    breaks=[
        Ledger([_JOB, _PAGE, _END, _RETURNED]),
        Ledger([_JOB, _ERROR_BODY, _ERROR, _END, _RETURNED]),
        Ledger([_JOB, _PAGE, _END, _MUTE]),
    ],
    silent=[
        Ledger([_JOB, replace(_PAGE, fault="content-type"), replace(_END, complete=True), _SUCCESS]),
        Ledger([_JOB, replace(_PAGE, fault="content-type"), _END, _MUTE]),
        Ledger([_JOB, _PAGE, _END, replace(_NAMED, how="limited", error=None, error_type=None)]),
    ],
    idle=[
        Ledger([_JOB, _PAGE, _END]),
        Ledger([_JOB, replace(_PAGE, status=502), _END, _RETURNED]),
    ],
)
