"""Questions about attempts: which requests share a budget, which failed, which repeat another one.

A model turn is asked for at the endpoint; everything else that an agent or a tool requests arrives at the
counting server. Both are counted where they are received, whatever their bodies look like.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_agentguard._core.events import (
    ClientClosed,
    Event,
    FetchEnded,
    FetchStarted,
    HttpAnswered,
    HttpReceived,
    ReplyStarted,
    RequestReceived,
    RequestUnmatched,
    RunEnded,
    RunStarted,
    StreamEnded,
    StreamHeld,
    TranscriptRejected,
)
from pytest_agentguard._core.ledger import Ledger

_DIED = ("exited", "signalled", "killed")  # ends of a run whose process went away


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that was received, and what became of it.

    ``answer`` is the fact that says what was answered, ``end`` the receipt. ``status`` is 0 where no answer
    was begun; ``failed`` means that the client got no whole answer with a status below 400. ``call`` is the
    one use of a fetch tool that it belongs to: empty where none was witnessed, ``?`` where several were
    under way.
    """

    asked: RequestReceived | HttpReceived
    answer: Event | None = None
    end: Event | None = None
    status: int = 0
    failed: bool = False
    retry_after: float | None = None
    call: str = ""

    @property
    def request(self) -> str:
        """The name of the request."""
        return self.asked.request

    @property
    def turn(self) -> int:
        """The model turn that it asks for, counted from 1; 0 for a request to the counting server."""
        return self.asked.turn if isinstance(self.asked, RequestReceived) else 0

    @property
    def evidence(self) -> tuple[Event, ...]:
        """The facts that show it, each once."""
        facts = {id(fact): fact for fact in (self.asked, self.answer, self.end) if fact is not None}
        return tuple(facts.values())


@dataclass(frozen=True, slots=True)
class Budget:
    """Attempts that are counted together, and how many of them are declared.

    A model turn has a budget of its own, through restarts of a run whose process died; everything that one
    run requests from the counting server has one together. ``streams`` is how many model turns were
    answered side by side: conversations in one lane, which the number of the turn cannot tell apart.
    """

    attempts: tuple[Attempt, ...]
    declared: float
    streams: int = 1
    turn: int = 0  # 0: requests to the counting server

    @property
    def allowed(self) -> float:
        """How many requests may be received."""
        return self.declared * self.streams

    @property
    def what(self) -> str:
        """The budget as ``name=value``, for a summary."""
        return f"attempts={self.declared:g}" + (f" turn={self.turn}" if self.turn else "")


# -- attempts -----------------------------------------------------------------------------------------


def attempts(ledger: Ledger) -> tuple[Attempt, ...]:
    """Every request for a model turn, and every one to the counting server, in order."""
    return ledger.remembered(_attempts)


def _attempts(ledger: Ledger) -> tuple[Attempt, ...]:
    found = [*_of_the_endpoint(ledger), *_of_the_counting_server(ledger)]
    return tuple(sorted(found, key=lambda attempt: attempt.asked.seq))


def _of_the_endpoint(ledger: Ledger) -> Iterator[Attempt]:
    replies = _first_by("request", ledger.of(ReplyStarted))
    refused = _first_by("request", [*ledger.of(TranscriptRejected), *ledger.of(RequestUnmatched)])
    ends = _first_by("stream", [*ledger.of(StreamEnded), *ledger.of(ClientClosed)])
    for asked in ledger.of(RequestReceived, kind="turn"):
        reply = replies.get(asked.request)
        if reply is not None:
            yield _answered(asked, reply, ends.get(reply.stream))
        elif asked.request in refused:
            status = 400 if isinstance(refused[asked.request], TranscriptRejected) else 500
            yield Attempt(asked, refused[asked.request], None, status, failed=True)
        else:
            yield Attempt(asked)


def _answered(asked: RequestReceived, reply: ReplyStarted, end: Event | None) -> Attempt:
    """A redirect has not failed: where it leads is another question."""
    torn = isinstance(end, ClientClosed) or (isinstance(end, StreamEnded) and not end.complete)
    failed = reply.status >= 400 or (torn and reply.status < 300)
    return Attempt(asked, reply, end, reply.status, failed, reply.retry_after)


def _of_the_counting_server(ledger: Ledger) -> Iterator[Attempt]:
    answers = _first_by("request", ledger.of(HttpAnswered))
    left = _first_by("stream", ledger.of(ClientClosed))
    calls = _calls_under_way(ledger)
    for asked in ledger.of(HttpReceived):
        answer, call = answers.get(asked.request), calls.get(asked.seq, "")
        if answer is not None:
            yield Attempt(asked, answer, answer, answer.status, answer.failed, answer.retry_after, call)
        else:
            closed = left.get(asked.request)
            yield Attempt(asked, None, closed, failed=closed is not None, call=call)


def _first_by(name: str, events: Iterable[Any]) -> dict[str, Any]:
    """The first event for each value of a field; of several kinds, that of the kind named first."""
    found: dict[str, Any] = {}
    for event in events:
        found.setdefault(getattr(event, name), event)
    return found


def _calls_under_way(ledger: Ledger) -> dict[int, str]:
    """By the place of each request to the counting server, the fetch call that was under way."""
    facts = [*ledger.of(FetchStarted), *ledger.of(FetchEnded), *ledger.of(HttpReceived)]
    under_way: dict[str, None] = {}
    found: dict[int, str] = {}
    for fact in sorted(facts, key=lambda fact: fact.seq):
        if isinstance(fact, FetchStarted):
            under_way[fact.call] = None
        elif isinstance(fact, FetchEnded):
            under_way.pop(fact.call, None)
        elif under_way:
            found[fact.seq] = next(iter(under_way)) if len(under_way) == 1 else "?"
    return found


# -- runs ---------------------------------------------------------------------------------------------


def attempts_by_run(ledger: Ledger) -> tuple[tuple[RunStarted | None, tuple[Attempt, ...]], ...]:
    """The attempts of each run, in order; a request after the end of a run is still one of that run.

    What was requested before the first run belongs to that one. Without any run there is none to name.
    """
    return ledger.remembered(_attempts_by_run)


def _attempts_by_run(ledger: Ledger) -> tuple[tuple[RunStarted | None, tuple[Attempt, ...]], ...]:
    starts = ledger.of(RunStarted)
    parts: list[list[Attempt]] = [[] for _ in starts] or [[]]
    at = 0
    for attempt in attempts(ledger):
        while at + 1 < len(starts) and starts[at + 1].seq < attempt.asked.seq:
            at += 1
        parts[at].append(attempt)
    runs: Sequence[RunStarted | None] = starts or [None]
    return tuple((run, tuple(part)) for run, part in zip(runs, parts, strict=True))


def declared(run: RunStarted | None, name: str) -> float | None:
    """A limit that a run declares, in its own unit; None where it declares none above zero."""
    value = run.limits.get(name) if run is not None else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else None  # type: ignore[arg-type, operator]


def model_turns(made: Iterable[Attempt]) -> list[Attempt]:
    """The attempts at model turns among these."""
    return [attempt for attempt in made if isinstance(attempt.asked, RequestReceived)]


def streams_of(ledger: Ledger, made: Iterable[Attempt]) -> int:
    """How many of these model turns were answered at the same time, at the most; at least 1.

    An answer that was held, or that the client left, does not count: what comes beside it is the next
    attempt of a client that has given it up.
    """
    held = {hold.stream for hold in ledger.of(StreamHeld)}
    moves: list[tuple[int, int]] = []
    for attempt in model_turns(made):
        end, answer = attempt.end, attempt.answer
        if isinstance(end, StreamEnded) and end.stream not in held and _was_taken(end) and answer is not None:
            moves += [(attempt.asked.seq, 1), (end.seq, -1)]
    now = most = 0
    for _, change in sorted(moves):
        now += change
        most = max(most, now)
    return max(1, most)


def _was_taken(end: StreamEnded) -> bool:
    return end.complete or end.end != "client-left"


# -- budgets ------------------------------------------------------------------------------------------


def budgets(ledger: Ledger) -> tuple[Budget, ...]:
    """Every declared budget of attempts, with what was received under it.

    Where a run asks for model turns, ``attempts`` is declared for each of those and what it requests from
    the counting server has no budget.
    """
    return ledger.remembered(_budgets)


def _budgets(ledger: Ledger) -> tuple[Budget, ...]:
    found = []
    for run, made in _stories(ledger):
        limit = declared(run, "attempts")
        if limit is None or not made:
            continue
        asked = model_turns(made)
        if not asked:
            found.append(Budget(tuple(made), limit))
            continue
        streams = streams_of(ledger, asked)
        turns: defaultdict[int, list[Attempt]] = defaultdict(list)
        for attempt in asked:
            turns[attempt.turn].append(attempt)
        found += [Budget(tuple(group), limit, streams, turn) for turn, group in turns.items()]
    return tuple(found)


def _stories(ledger: Ledger) -> Iterator[tuple[RunStarted | None, list[Attempt]]]:
    """Runs with their attempts; one that was started again after its process had died is one story."""
    died = [end for end in ledger.of(RunEnded) if end.how in _DIED]
    story: tuple[RunStarted | None, list[Attempt]] | None = None
    for run, made in attempts_by_run(ledger):
        again = False
        while run is not None and died and died[0].seq < run.seq:
            again = story is not None
            died = died[1:]
        if story is not None and again:
            story[1].extend(made)
            continue
        if story is not None:
            yield story
        story = (run, list(made))
    if story is not None:
        yield story


# -- one after the other --------------------------------------------------------------------------------


def followed(ledger: Ledger) -> tuple[tuple[Attempt, Attempt | None], ...]:
    """Every attempt with the next one of the same client, or None; where that cannot be told, neither.

    Of model turns it is the next one of the run, unless several were answered side by side. At the counting
    server it is the next request of the same method to the same URL, within the same use of a fetch tool
    where that was witnessed; the first one has to be over by then.
    """
    return ledger.remembered(_followed)


def _followed(ledger: Ledger) -> tuple[tuple[Attempt, Attempt | None], ...]:
    pairs: list[tuple[Attempt, Attempt | None]] = []
    for _, made in attempts_by_run(ledger):
        asked = model_turns(made)
        if streams_of(ledger, asked) == 1:
            pairs += zip(asked, [*asked[1:], None], strict=True) if asked else ()
        pairs += _of_one_url(made)
    return tuple(pairs)


def _of_one_url(made: Iterable[Attempt]) -> Iterator[tuple[Attempt, Attempt | None]]:
    places: defaultdict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    for attempt in made:
        if isinstance(attempt.asked, HttpReceived) and attempt.call != "?":
            places[attempt.asked.method, attempt.asked.url, attempt.call].append(attempt)
    for group in places.values():
        for attempt, later in zip(group, [*group[1:], None], strict=True):
            is_over = attempt.end is not None and (later is None or attempt.end.seq < later.asked.seq)
            if is_over:
                yield attempt, later


def is_next(ledger: Ledger, first: Attempt, second: Attempt) -> bool:
    """Whether nothing at all was received between the two: no new token, say, and no list of models."""
    received = ledger.remembered(_received)
    return received[second.asked.seq] == received[first.asked.seq] + 1


def _received(ledger: Ledger) -> dict[int, int]:
    """The number of each request by its place in the ledger."""
    facts = sorted(fact.seq for fact in (*ledger.of(RequestReceived), *ledger.of(HttpReceived)))
    return {seq: number for number, seq in enumerate(facts)}


def is_same_request(first: Attempt, second: Attempt) -> bool:
    """Whether two attempts say the same to the same place: equal text, or equal JSON."""
    one, other = first.asked, second.asked
    if _place(one) != _place(other):
        return False
    return one.body == other.body or (bool(one.body) and _is_same_json(one.body, other.body))


def _place(asked: RequestReceived | HttpReceived) -> tuple[object, ...]:
    if isinstance(asked, RequestReceived):
        return RequestReceived, asked.method, asked.path
    return HttpReceived, asked.method, asked.url, asked.body_bytes


def _is_same_json(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False
