"""Chat bodies that never end, in two sizes: what the agent keeps of them may not grow with what is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_agentguard import Reply, Scenario, Setup, Variant
from pytest_agentguard.scenarios._replies import recovery

_SIZES = (Variant("n", size=8 * 1024 * 1024), Variant("8n", size=64 * 1024 * 1024))
_DELTA = (
    "and so on, and so forth, " * 10_900
)  # 256 KiB: clients that join texts take quadratic time over many deltas


def _flood(what: str) -> Callable[[Setup, Variant], Sequence[Reply]]:
    def vary(setup: Setup, variant: Variant) -> list[Reply]:
        reply = Reply().text(_DELTA, "and that is all.").flood(what, variant.size)
        return [reply.named(f"{what} without end, {variant.size >> 20} MiB"), recovery(setup)]

    return vary


def _endless(id: str, what: str, summary: str, hint: str, modes: tuple[str, ...]) -> Scenario:
    return Scenario(
        id=id,
        summary=summary,
        invariants=("stream-memory-bounded",),
        variants=_SIZES,
        vary=_flood(what),
        modes=modes,
        memory=True,
        watch=0.1,
        heavy=True,
        seconds=90.0,
        requirements=("A24", "D08"),
        hint=hint,
    )


SCENARIOS = (
    _endless(
        "endless-event",
        "event",
        "One event of the stream never ends.",
        "A line without an end is kept for ever unless the reader has a bound.",
        ("stream",),
    ),
    _endless(
        "endless-keep-alives",
        "keep-alive",
        "The stream consists of keep-alives without end.",
        "Nothing of a keep-alive is worth keeping.",
        ("stream",),
    ),
    _endless(
        "endless-text",
        "text",
        "The text of the answer never ends.",
        "Whoever collects an answer needs a bound on how long it may become.",
        ("stream",),
    ),
    _endless(
        "endless-body",
        "text",
        "The body that is not streamed never ends.",
        "Whoever reads a whole body needs a bound on how long it may become.",
        ("block",),
    ),
)
