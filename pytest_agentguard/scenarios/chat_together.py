"""Several chats at once in one process: what happens to one of them never shows in another."""

from __future__ import annotations

from pytest_agentguard import Lane, Reply, Scenario, Setup
from pytest_agentguard.scenarios._replies import after_piece, answer, record, recovery


def _slow() -> Reply:
    """A healthy call that is still under way when the others have failed."""
    return record().pause(0.4, after_piece(0, 1)).pause(0.4, after_piece(1)).named("healthy and slow")


def _healthy(label: str, setup: Setup) -> Lane:
    return Lane(label, [_slow(), answer(setup)])


def _two(setup: Setup) -> list[Lane]:
    cut = Reply().text("Let me record that.").call("record", x="{nonce}-evidence").cut(inside="x")
    return [_healthy("whole", setup), Lane("cut", [cut, recovery(setup)])]  # the later one is cut


def _eight(setup: Setup) -> list[Lane]:
    faulty = {
        "cut": record().cut(),
        "error": record().error("overloaded")
        if setup.mode == "stream"
        else record().json_error("overloaded"),
        "page": Reply().html(),
        "reset": record().reset(),
    }
    lanes = [Lane(label, [reply, recovery(setup)]) for label, reply in faulty.items()]
    return [*lanes, *(_healthy(f"whole-{n}", setup) for n in range(1, 5))]


SCENARIOS = (
    Scenario(
        id="two-chats-one-cut",
        summary="Two chats run at once, and one of them is cut in the middle of its call.",
        invariants=("runs-isolated",),
        lanes=_two,
        together=True,
        requirements=("A43",),
        hint="The one that was not cut has its own text, its own call and its own answer.",
    ),
    Scenario(
        id="eight-chats-half-fail",
        summary="Eight chats run at once; four of them fail, each in another way.",
        invariants=("runs-isolated",),
        lanes=_eight,
        together=True,
        requirements=("A43",),
        hint="The four that were healthy have their own text, their own calls and their own answers.",
    ),
)
