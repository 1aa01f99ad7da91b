"""Ids and nonces that are new every time and the same for the same seed; their length never varies."""

from __future__ import annotations

import hashlib
from itertools import count

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = [low + high for high in _ALPHABET for low in _ALPHABET]  # two digits at a time


class CountedIds:
    """Ids counted from a seed. Two seeds never share an id in practice, one seed never repeats one."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = count(1)

    def response(self) -> str:
        """Twelve characters for a response."""
        return self._make("r", 12)

    def call(self) -> str:
        """Nine characters for a call (some providers accept no other length)."""
        return self._make("c", 9)

    def nonce(self) -> str:
        """Seven characters, as long as the placeholder that they replace, the first one a letter."""
        return "k" + self._make("n", 6)

    def _make(self, kind: str, length: int) -> str:
        digest = hashlib.blake2b(f"{self._seed}/{kind}/{next(self._count)}".encode(), digest_size=16).digest()
        number = int.from_bytes(digest)
        made = ""
        while len(made) < length:
            number, pair = divmod(number, 36 * 36)
            made += _PAIRS[pair]
        return made[:length]
