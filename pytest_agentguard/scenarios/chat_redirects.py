"""Model servers that point to another origin: neither the key nor the prompt has to arrive there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_agentguard import Reply, Scenario, Setup
from pytest_agentguard.scenarios._replies import record, recovery

_KEEPS_BODY = (307, 308)  # the others turn a POST into a GET without a body


def _to_elsewhere(status: int) -> Callable[[Setup], Sequence[Reply]]:
    def script(setup: Setup) -> Sequence[Reply]:
        target = f"{setup.elsewhere}/taken/{status}"
        return [record().redirect(target, status).named(f"redirect {status} elsewhere"), recovery(setup)]

    return script


def _redirected(status: int) -> Scenario:
    body = "with its body" if status in _KEEPS_BODY else "without its body"
    return Scenario(
        id=f"redirect-{status}-elsewhere",
        summary=f"The model's server answers {status} and names another origin: the request again, {body}.",
        invariants=("redirect-not-followed", "no-credentials-elsewhere", "no-prompt-elsewhere"),
        script=_to_elsewhere(status),
        elsewhere=True,
        modes=("stream", "block") if status == 307 else ("stream",),
        requirements=("D05",),
        hint="Who answers for the provider says where it goes; key and prompt were meant for one place.",
    )


SCENARIOS = tuple(map(_redirected, (301, 302, 303, 307, 308)))
