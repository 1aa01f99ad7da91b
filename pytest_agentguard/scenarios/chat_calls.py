"""Chat replies with several calls, with odd ids and indices, and with calls to tools that do not exist."""

from __future__ import annotations

from pytest_agentguard import RECORD, SHELL, Reply, Scenario
from pytest_agentguard.scenarios._replies import BROKEN_JSON, then_answer, then_recover

_APART = ("calls-kept-apart", "tool-runs-once")
_FIRST = ('{"x": ', '"{nonce}-of-the-first"', ', "y": "one"}')
_SECOND = ('{"x": ', '"{nonce}-of-the-second"', ', "y": "two"}')


def _two(first: str | None = "", second: str | None = "") -> Reply:
    return Reply().call("record", raw=_FIRST, id=first).call("record", raw=_SECOND, id=second)


SCENARIOS = (
    Scenario(
        id="interleaved-calls",
        summary="The pieces of two calls alternate in the stream.",
        invariants=(*_APART, "nothing-dropped-in-silence"),
        script=then_answer(_two().interleave()),
        modes=("stream",),
        hint="Every piece names the call that it belongs to.",
    ),
    Scenario(
        id="odd-indices",
        summary="Two calls alternate on the indices 1 and 3.",
        invariants=_APART,
        script=then_answer(_two().interleave(1, 3)),
        modes=("stream",),
        hint="An index is a name, not a position; to refuse it loudly is right as well.",
    ),
    Scenario(
        id="calls-without-ids",
        summary="Two calls come without ids.",
        invariants=_APART,
        script=then_answer(_two(None, None)),
        hint="Without an id no result can be matched to its call; a made-up one hides that.",
    ),
    Scenario(
        id="calls-with-one-id",
        summary="Two different calls come with the same id.",
        invariants=(*_APART, "nothing-dropped-in-silence"),
        script=then_answer(_two("call_same", "call_same")),
        hint="Two calls are two calls, whatever their ids say.",
    ),
    Scenario(
        id="plain-id",
        summary="The id of a call is the text 0.",
        invariants=("tool-runs-once", "nothing-dropped-in-silence", "transcript-is-valid"),
        script=then_answer(Reply().call("record", x="{nonce}-evidence", id="0")),
        hint="Ids are opaque; this one is as good as any.",
    ),
    Scenario(
        id="broken-beside-whole",
        summary="Of two calls in a complete turn, the second has broken arguments.",
        invariants=("no-tool-on-broken-arguments", "calls-kept-apart", "transcript-is-valid"),
        script=then_recover(
            Reply()
            .call("record", x="{nonce}-evidence")
            .call("shell", raw='{"command": "rm -rf {nonce}/', problem="broken")
            .named("a broken call beside a whole one")
        ),
        tools=(RECORD, SHELL),
        without=BROKEN_JSON,
        requirements=("A25",),
        hint="The broken call does not run, and if the model is told, both calls get a result.",
    ),
    Scenario(
        id="unknown-tool",
        summary="The model calls a tool that was not offered.",
        invariants=("unknown-tool-is-an-error", "transcript-is-valid"),
        script=then_recover(
            Reply().call("erase_disk", x="{nonce}-evidence").named("call to an unknown tool")
        ),
        hint="The model has to learn that there is no such tool, or the run has to fail.",
    ),
    Scenario(
        id="near-name-tool",
        summary="The model calls a tool whose name is nearly that of a real one.",
        invariants=("unknown-tool-is-an-error", "transcript-is-valid"),
        script=then_recover(
            Reply().call("Records", x="{nonce}-evidence").named("call to a tool of a near name")
        ),
        hint="A near name is another name; the nearest real tool was not asked for.",
    ),
)
