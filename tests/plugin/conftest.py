"""Suites of somebody else, run by pytest in pytest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

# Loaded once, out here: pytest forgets what a run inside this process imports. A second copy costs time, and
# one of our own modules would share no class with the first.

_INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
addopts = -p no:randomly -p no:hypothesispytest --strict-markers
filterwarnings = error
"""

_FACTS = '''
import pytest

from pytest_agentguard.events import CallOffered, RequestReceived, StreamEnded, ToolStarted, Witness

rule = pytest.mark.agentguard("no-tool-on-incomplete-stream")


def cut(guard, **receipt):
    """A reply with one call is cut before it is complete."""
    server = {"witness": Witness.ENDPOINT}
    guard.ledger.record(RequestReceived, request="r1", turn=1, dialect="openai-chat", mode="stream", **server)
    call = {"stream": "s1", "call": "s1.c1", "tool": "pay"}
    guard.ledger.record(CallOffered, arguments='{"to": "k1"}', nonce="k1", **call, **server)
    end = {"complete": False, "sent": 412, "planned": 412, "begun": ("s1.c1",), **receipt}
    guard.ledger.record(StreamEnded, stream="s1", **end, **server)


def run_tool(guard):
    """The tool runs all the same."""
    spy = {"witness": Witness.TOOL_SPY, "tool": "pay", "invocation": "t1.1"}
    guard.ledger.record(ToolStarted, arguments={"to": "k1"}, **spy)
'''

Suite = Callable[..., pytest.RunResult]


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """Runs a suite of one file in this process; ``facts`` in it records a cut stream and a tool that ran."""
    pytester.makefile(".ini", pytest=_INI)
    pytester.makepyfile(facts=_FACTS)

    def run(source: str, *options: str, subprocess: bool = False) -> pytest.RunResult:
        pytester.makepyfile(test_suite=source)
        start = pytester.runpytest_subprocess if subprocess else pytester.runpytest_inprocess
        return start(*options)

    return run
