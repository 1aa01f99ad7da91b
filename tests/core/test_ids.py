"""Ids and nonces: new every time, the same for the same seed, always of one length."""

from __future__ import annotations

import re

from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.script import NONCE


def made(seed: str, count: int = 200) -> list[tuple[str, str, str]]:
    ids = CountedIds(seed)
    return [(ids.response(), ids.call(), ids.nonce()) for _ in range(count)]


def test_one_seed_never_repeats_an_id() -> None:
    assert all(len(set(kind)) == 200 for kind in zip(*made("1"), strict=True))


def test_the_same_seed_gives_the_same_ids_and_another_one_others() -> None:
    assert made("1") == made("1")
    assert not {id for ids in made("1") for id in ids} & {id for ids in made("2") for id in ids}


def test_every_id_has_its_length_and_alphabet() -> None:
    for response, call, nonce in made("1"):
        assert re.fullmatch("[a-z0-9]{12}", response)
        assert re.fullmatch("[a-z0-9]{9}", call)
        assert re.fullmatch("k[a-z0-9]{6}", nonce)
        assert len(nonce) == len(NONCE)
