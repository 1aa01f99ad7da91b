"""Chat bodies that stop, trickle, take their time, or stay open; a release comes long after the limit."""

from __future__ import annotations

from functools import reduce

from pytest_agentguard import START, Limits, Reply, Scenario, Setup
from pytest_agentguard.scenarios._replies import after_piece, answer, record, recovery, then_recover

_IDLE = Limits(idle_timeout=0.5)
_DEADLINE = Limits(deadline=1.0)
_RELEASE = 10.0  # ten times the deadline
_WORDS = ("It ", "takes ", "a ", "while ", "to ", "say ", "this, ", "and ", "then ", "the ", "answer ", "is ")


def _trickled_text(setup: Setup) -> list[Reply]:
    talk = Reply().text("Well, ", "and so on, ", "and so forth.")
    plan = setup.measure(talk)
    first, second = sorted(mark.at for mark in plan.marks if mark.what == "piece")[:2]
    more = plan.body[first:second]
    return [talk.drip(after_piece(0, 1), every=0.1, limit=_RELEASE, data=more), recovery(setup)]


def _slowly(setup: Setup) -> list[Reply]:
    """Content every quarter of a second, for longer than the idle timeout in all."""
    reply = Reply().text(*_WORDS, setup.final)
    return [reduce(lambda r, n: r.pause(0.25, after_piece(0, n)), range(len(_WORDS) - 2), reply)]


def _kept_open(setup: Setup) -> list[Reply]:
    return [record().keep_open(), answer(setup)]


SCENARIOS = (
    Scenario(
        id="stall-before-first-byte",
        summary="The head of the response arrives, its body never begins.",
        invariants=("stall-ends", "no-success-on-incomplete-stream"),
        script=then_recover(record().stall(START)),
        limits=_IDLE,
        requirements=("A17",),
        hint="A timeout that covers only the head waits here for ever.",
    ),
    Scenario(
        id="stall-inside-value",
        summary="The body stops in the middle of an argument's value, and the connection stays.",
        invariants=("stall-ends", "no-tool-on-incomplete-stream", "no-success-on-incomplete-stream"),
        script=then_recover(Reply().call("record", x="{nonce}-evidence").stall(inside="x")),
        limits=_IDLE,
        requirements=("A17", "D07"),
        hint="Silence is not an end: neither to be waited for without limit, nor to be acted on.",
    ),
    Scenario(
        id="stall-before-finish",
        summary="The arguments are whole, then the body stops, and the connection stays.",
        invariants=("stall-ends", "no-tool-on-incomplete-stream", "no-success-on-incomplete-stream"),
        script=then_recover(record().stall()),
        limits=_IDLE,
        requirements=("A17",),
        hint="Silence is not an end: neither to be waited for without limit, nor to be acted on.",
    ),
    Scenario(
        id="trickle-keep-alives",
        summary="The body stops, and a keep-alive comes now and then.",
        invariants=("trickle-ends", "no-tool-on-incomplete-stream"),
        script=then_recover(record().drip(every=0.1, limit=_RELEASE)),
        limits=_DEADLINE,
        requirements=("D06",),
        hint="Each keep-alive restarts an idle timeout; only a deadline for the whole run ends this.",
    ),
    Scenario(
        id="trickle-text",
        summary="The text goes on and on, a few words at a time.",
        invariants=("trickle-ends", "no-success-on-incomplete-stream"),
        script=_trickled_text,
        limits=_DEADLINE,
        modes=("stream",),
        requirements=("D06",),
        hint="Content is no progress where it never ends; only a deadline for the whole run ends this.",
    ),
    Scenario(
        id="healthy-slow-stream",
        summary="Content comes every quarter of a second, for longer than the idle timeout in all.",
        invariants=("healthy-slow-stream-survives",),
        script=_slowly,
        limits=Limits(idle_timeout=1.5),
        paced=True,
        hint="The timeout is for silence, and there was none.",
    ),
    Scenario(
        id="marker-kept-open",
        summary="The whole answer has arrived, its marker too, and the connection stays open.",
        invariants=("marker-ends-the-wait",),
        script=_kept_open,
        modes=("stream",),
        hint="Everything has been said; what the connection does next is of no concern.",
    ),
)
