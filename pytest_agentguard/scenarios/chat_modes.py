"""The same logical reply, streamed and not streamed: the agent makes the same of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_agentguard import Reply, Scenario, Setup, Variant
from pytest_agentguard.scenarios._replies import after_piece, answer, record, recovery

_MODES = (Variant("stream", mode="stream"), Variant("block", mode="block"))

# id, the reply in words, the reply
_FAULTY: Mapping[str, tuple[str, Reply]] = {
    "cut": (
        "a text that ends before it is complete",
        Reply().text("The answer is not ", "this.").cut(after_piece(0)),
    ),
    "length": ("a turn that the output limit stopped", record().finish("length")),
    "nothing": ("a response without a body", Reply().nothing()),
    "json-error": ("an error as JSON with status 200", Reply().json_error("server")),
}


def _vary(reply: Reply) -> Callable[[Setup, Variant], Sequence[Reply]]:
    return lambda setup, variant: [reply, recovery(setup)]


def _both(id: str, words: str, vary: Callable[[Setup, Variant], Sequence[Reply]]) -> Scenario:
    return Scenario(
        id=id,
        summary=f"Streamed and not streamed: {words}.",
        invariants=("stream-and-block-agree",),
        variants=_MODES,
        vary=vary,
        modes=("both",),
        hint="The same words of the model cannot be a success in one mode and a failure in the other.",
    )


SCENARIOS = (
    _both("agree-on-healthy", "a healthy call", lambda setup, variant: [record(), answer(setup)]),
    *(_both(f"agree-on-{id}", words, _vary(reply)) for id, (words, reply) in _FAULTY.items()),
)
