"""Wire bytes that wait to leave, and which of them belong to the body."""

from __future__ import annotations

from dataclasses import dataclass, field

_GATHERED = 16  # pieces that one system call sends as they are; more are joined


@dataclass(slots=True)
class Outbox:
    """Pieces with what frames them. ``left`` is told how many bytes the socket took."""

    size: int = 0  # wire bytes that wait
    _pieces: list[bytes | memoryview] = field(default_factory=list)
    _spans: list[tuple[int, int, int]] = field(default_factory=list)  # framing, body, framing
    _body: int = 0  # body bytes among the spans
    _gone: int = 0  # wire bytes of the spans that have left
    _told: int = 0  # body bytes of the spans that have been answered

    def push(self, body: bytes | memoryview, lead: bytes = b"", trail: bytes = b"") -> None:
        """Queue a piece of the body between its framing."""
        span = before, size, after = len(lead), len(body), len(trail)
        if before:
            self._pieces.append(lead)
        if size:
            self._pieces.append(body)
        if after:
            self._pieces.append(trail)
        self._spans.append(span)
        self._body += size
        self.size += before + size + after

    def pieces(self) -> list[bytes | memoryview]:
        """What to hand to the socket."""
        if len(self._pieces) > _GATHERED:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces

    def left(self, count: int) -> int:
        """The socket took ``count`` bytes; how many of them were body bytes."""
        if count == self.size:
            news = self._body - self._told
            self.clear()
            return news
        self.size -= count
        self._gone += count
        self._drop(count)
        told, self._told = self._told, self._body_of(self._gone)
        return self._told - told

    def clear(self) -> None:
        """Forget what waits."""
        self._pieces, self._spans = [], []
        self.size = self._body = self._gone = self._told = 0

    def _drop(self, count: int) -> None:
        while count:
            first = self._pieces[0]
            if count < len(first):
                self._pieces[0] = memoryview(first)[count:]
                return
            count -= len(first)
            del self._pieces[0]

    def _body_of(self, gone: int) -> int:
        body = 0
        for lead, size, trail in self._spans:
            body += min(max(gone - lead, 0), size)
            gone -= lead + size + trail
            if gone <= 0:
                break
        return body
