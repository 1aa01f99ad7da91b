"""An error of the provider that ends a run reaches the caller with its kind or its status."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_agentguard import Finding, Invariant, Ledger, Level, exercised, reading, violated
from pytest_agentguard.events import ErrorSent, ReplyStarted, RunEnded, Witness

_WORDS = {
    "overloaded": ("overload", "unavailable", "capacity", "busy", "503", "529"),
    "rate-limit": ("rate", "too many", "throttl", "quota", "exhausted", "slow_down", "429"),
    "auth": ("auth", "api key", "api_key", "apikey", "credential", "401"),
    "context": ("context", "too long", "too large", "maximum", "token", "length", "badrequest", "400"),
}


def check(ledger: Ledger) -> Iterator[Finding]:
    """Judged on the last reply of a failed run; any word of the kind, in message or class names, will do."""
    for error in ledger.of(ErrorSent):
        words, outcome = _WORDS.get(error.kind), reading.outcome_of(ledger, error)
        if words is None or outcome is None or outcome.how not in ("raised", "failed"):
            continue
        replies = ledger.before(outcome, ReplyStarted)
        shown = [outcome.error, outcome.error_type, *outcome.error_chain]
        if not replies or replies[-1].stream != error.stream or not any(shown):
            continue
        yield exercised(error, outcome)
        text = " ".join(part for part in shown if part).lower()
        if not any(word in text for word in (*words, error.kind, *_status(replies[-1]))):
            yield violated(
                f"error={reading.brief(outcome.error)} error_type={outcome.error_type}, "
                f"sent kind={error.kind} status={replies[-1].status}",
                error, outcome,
            )  # fmt: skip


def _status(reply: ReplyStarted) -> tuple[str, ...]:
    return (str(reply.status),) if reply.status >= 400 else ()


_REPLY = ReplyStarted(witness=Witness.ENDPOINT, stream="s1", request="r1", status=429, fault="status-429")
_ERROR = ErrorSent(witness=Witness.ENDPOINT, stream="s1", kind="rate-limit", where="status")
_NAMED = RunEnded(witness=Witness.RUNNER, how="raised", error="", error_type="openai.RateLimitError")
_MUTE = replace(_NAMED, error="something went wrong", error_type="AgentError")
_CAUSED = replace(_MUTE, error_chain=("AgentError", "openai.RateLimitError"))

INVARIANT = Invariant(
    check,
    level=Level.MAY,
    why=(
        "Waiting helps against a rate limit, a new key against a refused one, a shorter history against "
        "an overflow. A caller who cannot tell them apart can only try again."
    ),
    source="wire facts §3 (errors), §4.5",
    remedy="Keep the status or the provider's error type in the exception, or chain the original one.",
    occasion="an overload, rate limit, refused key or context overflow that ended the run with an error",
    holds=[Ledger([_REPLY, _ERROR, _NAMED]), Ledger([_REPLY, _ERROR, _CAUSED])],
    breaks=[Ledger([_REPLY, _ERROR, _MUTE])],
    silent=[Ledger([_REPLY, _ERROR, replace(_MUTE, error="status 429")])],
    idle=[
        Ledger([_REPLY, _ERROR, replace(_MUTE, how="returned", error=None, error_type=None)]),
        Ledger([_REPLY, _ERROR, replace(_MUTE, error=None, error_type=None)]),
        Ledger([_REPLY, replace(_ERROR, kind="server"), _MUTE]),
        Ledger([_REPLY, _ERROR]),
    ],
)
