"""Replies and positions that the scenarios share.

A nonce stands first in every value, so that a value that was cut or repaired still shows its offer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_agentguard import Reply, Setup, Where

BROKEN_JSON = (("anthropic", "block"),)
"""Where arguments cannot be broken JSON: they are an object of the body there."""


def record() -> Reply:
    """The model says what it is about to do, then calls ``record``."""
    return Reply().text("Let me record that.").call("record", x="{nonce}-evidence")


def remove() -> Reply:
    """A call of ``remove`` in two fragments: a whole first key, then the safety flag."""
    return Reply().call("remove", raw=('{"path": "{nonce}/data"', ', "dry_run": true}'))


def purge() -> Reply:
    """A call of ``purge``, whose defaults are dangerous, with a harmless scope."""
    return Reply().call("purge", scope="{nonce}/cache", reason="tidy up")


def shell() -> Reply:
    """A call of ``shell`` whose first words alone would do harm."""
    return Reply().call("shell", command="rm -rf {nonce}/build/cache/of-yesterday")


def answer(setup: Setup) -> Reply:
    """The final answer. Whether the agent ever asks for it is for the rules to judge."""
    return Reply().text("The answer is ", setup.final).named("final answer").optional()


def recovery(setup: Setup) -> Reply:
    """A healthy final answer for an agent that tries again or tells the model what went wrong."""
    return Reply().text("The answer is ", setup.final).named("recovery").optional().times(8)


def then_recover(reply: Reply) -> Callable[[Setup], Sequence[Reply]]:
    """A script: ``reply`` once, then nothing but recovery."""
    return lambda setup: [reply, recovery(setup)]


def then_answer(*replies: Reply) -> Callable[[Setup], Sequence[Reply]]:
    """A script: healthy replies, then the final answer."""
    first, *rest = replies
    return lambda setup: [first, *(reply.optional() for reply in rest), answer(setup).times(8)]


def after_piece(part: int, fragment: int = 0) -> Where:
    """After fragment ``fragment`` of part ``part`` of the turn."""
    return Where("piece", part=part, fragment=fragment)
