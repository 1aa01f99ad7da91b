"""A plan that was made before, filled with new ids, is the plan that would be made anew."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_agentguard import Frame, Ids, Reply, Turn
from pytest_agentguard._core.forms import Forms, made_form
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard.catalogue import dialect

from .test_planning import ENDINGS, REPLIES, TALK, TWO

REPLIES = {**REPLIES, **{name: reply for name, (reply, _) in ENDINGS.items()}}
WAYS = [(d, m) for d in ("openai-chat", "anthropic") for m in ("stream", "block")]


def setting(way: tuple[str, str], n: int = 1, **more: Any) -> Setting:
    return Setting(dialect(way[0]), way[1], CountedIds(f"seed-{n}"), f"s{n}", f"r{n}", **more)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize(
    "more", [{}, {"lane": "l1", "strict": True, "tools": ("record",)}], ids=["plain", "lane"]
)
def test_every_plan_is_as_if_made_anew(reply: Reply, way: tuple[str, str], more: Mapping[str, Any]) -> None:
    forms = Forms()
    for n in (1, 2, 3, 12345):
        assert forms.plan(reply, setting(way, n, **more)) == plan(reply, setting(way, n, **more))


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_every_reply_has_a_form_unless_what_it_repeats_has_an_id(reply: Reply, way: tuple[str, str]) -> None:
    repeats_an_id = reply is REPLIES["flood"] and way == ("openai-chat", "stream")
    assert (made_form(reply, setting(way)) is None) == repeats_an_id


def test_settings_that_differ_share_no_form() -> None:
    forms = Forms()
    for _ in range(3):
        for way in WAYS:
            for more in ({}, {"strict": True}, {"lane": "a"}, {"tools": ()}, {"tools": ("record",)}):
                assert forms.plan(TALK, setting(way, **more)) == plan(TALK, setting(way, **more))


def test_a_dialect_of_the_same_name_is_another_one() -> None:
    forms = Forms()
    for _ in range(3):
        forms.plan(TALK, setting(WAYS[0]))
    other = replace(
        setting(WAYS[0]), dialect=replace(dialect("openai-chat"), response_headers=(("x-a", "b"),))
    )
    assert forms.plan(TALK, other).headers[-1] == ("x-a", "b")


def test_a_dialect_that_makes_something_else_of_an_id_has_no_form() -> None:
    def hashed(turn: Turn, mode: str, ids: Ids) -> tuple[Frame, ...]:
        return (
            Frame(hashlib.sha256(ids.response().encode()).hexdigest().encode(), finish=True, marker=True),
        )

    odd = replace(dialect("openai-chat"), encode=hashed)
    forms = Forms()
    bodies = set()
    for n in range(5):
        one = replace(setting(WAYS[0], n), dialect=odd)
        bodies.add(forms.plan(TALK, one).body)
    assert len(bodies) == 5
    assert made_form(TALK, replace(setting(WAYS[0]), dialect=odd)) is None


def test_a_dialect_that_sends_our_names_has_no_form() -> None:
    def named(turn: Turn, mode: str, ids: Ids) -> tuple[Frame, ...]:
        return (Frame(turn.calls[0].key.encode(), finish=True, marker=True),)

    odd = replace(setting(WAYS[0]), dialect=replace(dialect("openai-chat"), encode=named))
    assert made_form(TALK, odd) is None


def test_a_nonce_that_fragments_tear_apart_is_replaced_all_the_same() -> None:
    torn = Reply().call("record", raw=('{"x": "{non', 'ce}"}'))
    forms = Forms()
    for n in range(4):
        assert forms.plan(torn, setting(WAYS[0], n)) == plan(torn, setting(WAYS[0], n))


def test_replies_that_cannot_be_compared_are_planned() -> None:
    reply = replace(TALK, headers=(("x-list", ["a"]),))  # type: ignore[arg-type]
    for _ in range(3):
        assert Forms().plan(reply, setting(WAYS[0])) == plan(reply, setting(WAYS[0]))


def test_forms_are_bounded() -> None:
    forms = Forms(limit_bytes=3_000)
    for n in range(50):
        reply = TWO.named(f"reply {n}")
        for _ in range(3):
            assert forms.plan(reply, setting(WAYS[0])) == plan(reply, setting(WAYS[0]))
        assert forms._size <= 3_000
