"""The append-only, ordered, bounded record of what the witnesses saw in one run."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from threading import Lock
from typing import Any, Protocol, TypeVar

from pytest_agentguard._core import limits
from pytest_agentguard._core.events import Event, LedgerFull, RunEnded, RunStarted, ToolStarted, Witness
from pytest_agentguard._core.joins import join

E = TypeVar("E", bound=Event)
T = TypeVar("T")
_FEW = 4  # so many events are looked through as fast as an index is made
_seq = attrgetter("seq")


class Recorder(Protocol):
    """Takes facts: a ledger in memory, or a journal on disk."""

    def record(self, kind: type[Event], /, **fields: Any) -> None:
        """Append one fact, with the fields of its event."""


class Ledger:
    """Facts in the order in which they were recorded.

    Appending keeps a raw tuple; typed events, the index and the joins are built when somebody reads.
    ``clock`` gives the time of an entry in seconds; without one all times are zero. ``limit_events`` is the
    bound; reaching it appends one ``LedgerFull`` and drops what follows.
    """

    def __init__(
        self,
        events: Iterable[Event] = (),
        *,
        clock: Callable[[], float] | None = None,
        limit_events: int = limits.LEDGER_EVENTS,
    ) -> None:
        self._raw: list[tuple[float, Any, Any]] = []
        self._clock = clock or _no_clock
        self._limit = limit_events
        self._sources: list[Callable[[], Iterable[tuple[float, type[Event], dict[str, Any]]]]] = []
        self._filling = Lock()
        self._is_full = False
        self._seen: tuple[tuple[int, int], _View] = ((0, 0), _View([]))
        for event in events:
            self.append(event)

    # -- writing: list.append is atomic, so no lock is taken ---------------------------------------

    def record(self, kind: type[Event], /, **fields: Any) -> None:
        """Append the fact ``kind(**fields)``; the event is built when it is read."""
        raw = self._raw
        if len(raw) >= self._limit:
            self._full()
            return
        raw.append((self._clock(), kind, fields))

    def append(self, event: Event) -> None:
        """Append an event that has been built already."""
        if len(self._raw) >= self._limit:
            self._full()
            return
        self._raw.append((event.t or self._clock(), event, None))

    def _full(self) -> None:
        with self._filling:  # threads that pass the bound together leave one LedgerFull, and it is the last
            if self._is_full:
                return
            self._is_full = True
            fields = {"witness": Witness.LEDGER, "limit_events": self._limit}
            self._raw.append((self._clock(), LedgerFull, fields))

    def also_read(self, source: Callable[[], Iterable[tuple[float, type[Event], dict[str, Any]]]]) -> None:
        """Merge, by time, what ``source`` returns at each reading (a journal of other processes)."""
        self._sources.append(source)

    # -- reading ------------------------------------------------------------------------------------

    def _read(self) -> _View:
        (count, _), view = self._seen
        if count == len(self._raw) and not self._sources:
            return view
        return self._merged()

    def _merged(self) -> _View:
        more = [entry for source in self._sources for entry in source()] if self._sources else ()
        key = (len(self._raw), len(more))
        seen, view = self._seen
        if key != seen:
            entries: list[tuple[float, Any, Any]] = self._raw[: key[0]]
            if more:
                entries = sorted([*entries, *more], key=lambda entry: entry[0])
            view = _View(join([_build(n, *entry) for n, entry in enumerate(entries, 1)]))
            self._seen = key, view
        return view

    def __iter__(self) -> Iterator[Event]:
        return iter(self._read().events)

    def __len__(self) -> int:
        return len(self._read().events)

    def __repr__(self) -> str:
        return f"<Ledger events={len(self)}>"

    def of(self, kind: type[E], /, **equals: Any) -> tuple[E, ...]:
        """Every event of ``kind`` whose fields have the given values, in order."""
        return self._read().of(kind, equals)

    def first(self, kind: type[E], /, **equals: Any) -> E | None:
        """The first event of ``kind`` with the given values, or None."""
        found = self._read().of(kind, equals)
        return found[0] if found else None

    def after(self, event: Event, kind: type[E], /, **equals: Any) -> tuple[E, ...]:
        """Every event of ``kind`` recorded later than ``event``."""
        found = self._read().of(kind, equals)
        return found[bisect_right(found, event.seq, key=_seq) :]

    def first_after(self, event: Event, kind: type[E], /, **equals: Any) -> E | None:
        """The first event of ``kind`` recorded later than ``event``, or None."""
        found = self._read().of(kind, equals)
        at = bisect_right(found, event.seq, key=_seq)
        return found[at] if at < len(found) else None

    def before(self, event: Event, kind: type[E], /, **equals: Any) -> tuple[E, ...]:
        """Every event of ``kind`` recorded earlier than ``event``."""
        found = self._read().of(kind, equals)
        return found[: bisect_left(found, event.seq, key=_seq)]

    def remembered(self, question: Callable[[Ledger], T]) -> T:
        """What ``question`` says of this ledger: asked once for as long as nothing is added.

        For what many rules want to know. A question is a function of a module, and its answer is not changed.
        """
        answers = self._read().answers
        try:
            answer: T = answers[question]
        except KeyError:
            answer = answers[question] = question(self)
        return answer

    def still(self) -> Ledger:
        """The ledger as it is now, in which nothing is added any more."""
        return _Still(self._read())

    @property
    def run(self) -> RunStarted | None:
        """How the run began, or None where no runner was there.

        In a test that declares limits first and then runs the agent, this is the run; it has the limits too.
        """
        return next(reversed(self.of(RunStarted)), None)

    @property
    def end(self) -> RunEnded | None:
        """How the run ended, or None where no runner was there or it has not ended."""
        return self.first(RunEnded)

    @property
    def ambiguous(self) -> tuple[ToolStarted, ...]:
        """Tool starts that fit several offered calls of which some were complete and others not."""
        return self._read().ambiguous

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of all lanes, in order of appearance."""
        return tuple(self._read().lanes)

    def by_lane(self) -> dict[str, Ledger]:
        """One ledger per lane; facts without a lane belong to every one of them."""
        return dict(self._read().lanes)


class _View:
    """Typed events with an index by kind and, once asked for, by some of their fields and by lane."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.answers: dict[Any, Any] = {}
        self._kinds = _grouped(events, map(type, events))
        self._keys: dict[tuple[Any, ...], dict[Any, tuple[Any, ...]]] = {}

    def of(self, kind: type[E], equals: dict[str, Any]) -> tuple[E, ...]:
        found: tuple[Any, ...] = self._kinds.get(kind, ())
        if not equals or not found:
            return found
        if len(found) > _FEW:
            names: tuple[Any, ...] = (kind, *equals)
            try:
                index = self._keys.get(names) or self._indexed(*names)
                return index.get(tuple(equals.values()), ())
            except TypeError:  # a value that cannot be a key
                pass
        for name, value in equals.items():
            found = tuple([e for e in found if getattr(e, name) == value])
        return found

    def _indexed(self, kind: type[Event], *names: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        events = self._kinds[kind]
        values = map(attrgetter(*names), events)
        index = _grouped(events, values if len(names) > 1 else zip(values))
        self._keys[kind, *names] = index  # only when it is whole: readers share the view
        return index

    @cached_property
    def ambiguous(self) -> tuple[ToolStarted, ...]:
        return tuple(e for e in self.of(ToolStarted, {}) if e.stream == "?")

    @cached_property
    def lanes(self) -> dict[str, Ledger]:
        """One ledger per lane, made once: every rule reads the same ones."""
        lanes = _grouped(self.events, map(attrgetter("lane"), self.events))
        common = lanes.pop("", ())
        return {name: _Still(_View(_in_order(common, own)), name) for name, own in lanes.items()}


def _in_order(common: tuple[Event, ...], own: tuple[Event, ...]) -> Sequence[Event]:
    return sorted([*common, *own], key=_seq) if common else own


def _grouped(events: Iterable[Event], keys: Iterable[Any]) -> dict[Any, tuple[Any, ...]]:
    groups: defaultdict[Any, list[Event]] = defaultdict(list)
    for key, event in zip(keys, events, strict=True):
        groups[key].append(event)
    return {key: tuple(group) for key, group in groups.items()}


class _Still(Ledger):
    """Events that have their numbers and joins already, all or those of a lane; nothing is added any more."""

    def __init__(self, view: _View, lane: str = "") -> None:
        super().__init__(limit_events=0)
        self._view = view
        self._lane = lane

    def _read(self) -> _View:
        return self._view

    def still(self) -> Ledger:
        return self

    def by_lane(self) -> dict[str, Ledger]:
        return {self._lane: self} if self._lane else super().by_lane()


def _build(seq: int, t: float, kind: Any, fields: dict[str, Any] | None) -> Event:
    if fields is None:
        event: Event = replace(kind, seq=seq, t=t)
        return event
    built: Event = kind(seq=seq, t=t, **fields)
    return built


def _no_clock() -> float:
    return 0.0
