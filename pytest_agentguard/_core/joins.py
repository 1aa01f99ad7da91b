"""Joins what the tool spy saw to what the endpoint offered.

A spy sees only arguments. A start belongs to the offered call whose nonce its arguments contain; else to the
offered calls of the same tool; else, where the arguments still carry a nonce, to the call that owns it. Where
several calls fit and they differ in whether they were complete, nothing can be said: the start gets
``stream="?"`` and the run is invalid.

Offers are kept by nonce, by tool and by arguments, so that a start looks at none that does not fit.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from heapq import heappush, heapreplace
from typing import Any

from pytest_agentguard._core.events import CallOffered, Event, StreamEnded, ToolStarted
from pytest_agentguard._core.journal import ready

_TEXT = json.JSONEncoder(ensure_ascii=False, default=repr)
_NO_JSON = (ValueError, RecursionError)
_NO_KEY = (TypeError, RecursionError)


def join(events: Sequence[Event]) -> list[Event]:
    """The same events, each tool start with the stream and call that it belongs to.

    An offer is recorded before its first byte leaves, so a start belongs to an earlier one.
    """
    complete = {e.stream: e.complete for e in events if isinstance(e, StreamEnded)}
    starts: dict[tuple[str, str], int] = {}  # of each call, so far
    lanes: defaultdict[str, _Offers] = defaultdict(lambda: _Offers(complete, starts))
    joined: list[Event] = []
    for event in events:
        if isinstance(event, CallOffered):
            lanes[event.lane].add(event)
        elif isinstance(event, ToolStarted) and not event.stream and event.lane in lanes:
            event = _joined(event, lanes[event.lane].fitting(event), starts)
        joined.append(event)
    return joined


def _joined(start: ToolStarted, fits: Sequence[_Group], starts: dict[tuple[str, str], int]) -> ToolStarted:
    if not fits:
        return start
    if len(set().union(*(group.complete for group in fits))) > 1:
        return replace(start, stream="?", call="?")
    # the same call offered several times over: the one with the fewest starts so far
    chosen = min(group.next() for group in fits)[-1]
    starts[chosen.stream, chosen.call] = starts.get((chosen.stream, chosen.call), 0) + 1
    return replace(start, stream=chosen.stream, call=chosen.call)


class _Group:
    """Offers that fit the same starts: whether they were complete, and whose turn it is."""

    def __init__(self, complete: Mapping[str, bool], starts: Mapping[tuple[str, str], int]) -> None:
        self._of_stream = complete
        self._starts = starts
        self._queue: list[tuple[int, int, CallOffered]] = []  # by starts, as they were then, and by place
        self.complete: set[bool | None] = set()

    def add(self, place: int, offer: CallOffered) -> None:
        self.complete.add(self._of_stream.get(offer.stream))
        heappush(self._queue, (self._starts.get((offer.stream, offer.call), 0), place, offer))

    def next(self) -> tuple[int, int, CallOffered]:
        """The offer with the fewest starts so far, the first of several."""
        while True:
            known, place, offer = self._queue[0]
            count = self._starts.get((offer.stream, offer.call), 0)
            if count == known:  # no other one can have less: starts only grow
                return self._queue[0]
            heapreplace(self._queue, (count, place, offer))


class _Offers:
    """What was offered in one lane so far."""

    def __init__(self, complete: Mapping[str, bool], starts: Mapping[tuple[str, str], int]) -> None:
        self._group = partial(_Group, complete, starts)
        self._count = 0
        self._lengths: set[int] = set()  # of the nonces
        self._by_nonce: dict[str, defaultdict[str, _Group]] = {}  # and by tool
        self._by_tool: defaultdict[str, _Group] = defaultdict(self._group)
        self._by_arguments: defaultdict[tuple[str, Any], _Group] = defaultdict(self._group)  # and by tool
        self._unread: list[tuple[int, CallOffered]] = []  # their arguments were not needed yet
        self._read: defaultdict[str, list[tuple[int, CallOffered, Any]]] = defaultdict(list)

    def add(self, offer: CallOffered) -> None:
        self._count += 1
        self._by_tool[offer.tool].add(self._count, offer)
        self._unread.append((self._count, offer))
        if offer.nonce:
            self._lengths.add(len(offer.nonce))
            tools = self._by_nonce.setdefault(offer.nonce, defaultdict(self._group))
            tools[offer.tool].add(self._count, offer)

    def fitting(self, start: ToolStarted) -> list[_Group]:
        """The offers that ``start`` may belong to, in groups that do not overlap."""
        found = [self._by_nonce[nonce] for nonce in self._nonces_in(start)]
        if found:
            own = [tools[start.tool] for tools in found if start.tool in tools]
            return own or [group for tools in found for group in tools.values()]
        if start.tool not in self._by_tool:
            return []
        return self._equal(start) or [self._by_tool[start.tool]]

    def _nonces_in(self, start: ToolStarted) -> Iterable[str]:
        if not self._by_nonce:
            return ()
        text = _text(start.arguments)
        if len(self._by_nonce) < len(text):
            return [nonce for nonce in self._by_nonce if nonce in text]
        pieces = {text[at : at + n] for n in self._lengths for at in range(len(text) - n + 1)}
        return [piece for piece in pieces if piece in self._by_nonce]

    def _equal(self, start: ToolStarted) -> list[_Group]:
        """The offers of the same tool with the same arguments, as a group or none."""
        self._read_arguments()
        try:
            group = self._by_arguments.get((start.tool, _key(start.arguments)))
        except _NO_KEY:
            group = self._group()
            for place, offer, arguments in self._read[start.tool]:
                if _same(arguments, start.arguments):
                    group.add(place, offer)
        return [group] if group is not None and group.complete else []

    def _read_arguments(self) -> None:
        for place, offer in self._unread:
            with suppress(*_NO_JSON, *_NO_KEY):
                arguments = json.loads(offer.arguments)
                self._read[offer.tool].append((place, offer, arguments))
                self._by_arguments[offer.tool, _key(arguments)].add(place, offer)
        self._unread.clear()


def _text(arguments: dict[str, Any]) -> str:
    try:
        return _TEXT.encode(arguments)
    except (TypeError, ValueError, RecursionError):  # a key that is no string, a circle, too deep
        return _TEXT.encode(ready(arguments))


def _key(value: Any) -> Any:
    """A key that is the same for equal values, however deep they are."""
    if isinstance(value, dict):
        return dict, frozenset((name, _key(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return list, tuple(map(_key, value))
    hash(value)
    return value


def _same(offered: Any, real: Any) -> bool:
    try:
        return bool(offered == real)
    except (ValueError, RecursionError):  # an array says that its truth is ambiguous
        return False
