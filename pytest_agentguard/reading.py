"""Questions that many rules ask of a ledger, for those who write invariants."""

from __future__ import annotations

from pytest_agentguard._core.reading import (
    added_by,
    altered,
    answers_truly,
    attempt_end,
    brief,
    broken_off,
    end_of_wait,
    false_success,
    is_healthy,
    json_object,
    limit_of,
    outcome_of,
    permitted_calls,
    release_of,
    reply_of,
    requests_after,
    run_of,
    schema_of,
    text_of,
    told,
)  # fmt: skip

__all__ = [
    "added_by",
    "altered",
    "answers_truly",
    "attempt_end",
    "brief",
    "broken_off",
    "end_of_wait",
    "false_success",
    "is_healthy",
    "json_object",
    "limit_of",
    "outcome_of",
    "permitted_calls",
    "release_of",
    "reply_of",
    "requests_after",
    "run_of",
    "schema_of",
    "text_of",
    "told",
]
