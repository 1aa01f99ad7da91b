"""Reports of whole batteries, small enough to read."""

from __future__ import annotations

from typing import Any

from pytest_agentguard._core.report import AgentInfo, Check, document

DIALECTS = ("anthropic", "openai-responses", "openai-chat")


def check(invariant: str, outcome: str, **more: Any) -> Check:
    """One check of a chat scenario."""
    case = {
        "agent": "langchain",
        "surface": "chat",
        "scenario": "cut-inside-value",
        "dialect": "openai-chat",
        "mode": "stream",
        "level": "must",
    }
    return Check(invariant=invariant, outcome=outcome, **{**case, **more})


def battery() -> dict[str, Any]:
    """One agent, three dialects, both modes; a rule for each outcome."""
    checks = []
    for dialect in DIALECTS:
        checks += [
            check("no-tool-on-incomplete-stream", "violated", dialect=dialect),
            check("no-tool-on-incomplete-stream", "held", dialect=dialect, mode="block"),
            check("no-tool-on-incomplete-stream", "held", dialect=dialect, scenario="cut-in-text"),
            check("stall-ends", "held", dialect=dialect, mode="both"),
        ]
    checks += [
        check("retry-after-respected", "not exercised", mode="both"),
        check("error-keeps-its-kind", "violated", level="may"),
        check("tool-runs-once", "invalid", mode="block"),
        check("transcript-is-valid", "known", level="should"),
    ]
    missing = ("fetch", "process", "shell", "sessions")
    agent = AgentInfo(name="langchain", version="1.5.2", surfaces=("chat",), not_covered=missing)
    return document("0.1.0", [agent], checks)
