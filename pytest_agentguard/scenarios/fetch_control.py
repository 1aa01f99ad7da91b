"""Fetch tools with nothing wrong: what every other scenario of the surface depends on."""

from __future__ import annotations

from pytest_agentguard import FetchCall, FetchScript, Route, Scenario

SCENARIOS = (
    Scenario(
        id="fetch-control",
        summary="An allowed id is fetched: one request arrives, and what the server says comes back.",
        invariants=(),
        surface="fetch",
        control=True,
        fetch=FetchScript(
            routes=(Route(path="/one"),),
            allowed={"one": "/one"},
            calls=(FetchCall("one"),),
        ),
        hint="A tool that fetches nothing would look safe in all that follows.",
    ),
)
