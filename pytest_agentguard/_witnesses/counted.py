"""What is recorded about one answer of the counting server, and the effect that comes with or without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentguard._core.events import (
    ClientClosed,
    EffectDone,
    HttpAnswered,
    HttpReceived,
    StreamHeld,
    StreamReleased,
)
from pytest_agentguard._core.plan import Hold, Note, Plan
from pytest_agentguard._core.scenario import Route
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.engine import Engine, Timer
from pytest_agentguard._witnesses.framing import planned_size
from pytest_agentguard._witnesses.served import Served
from pytest_agentguard._witnesses.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

_ENDS = {"stalled": "cut", "server-failed": "cut"}


class Effects:
    """Requests whose clients went away, and whose effects happen all the same when they are released."""

    def __init__(self, engine: Engine, tally: Tally) -> None:
        self._engine = engine
        self._tally = tally
        self._waiting: dict[Counted, Timer] = {}

    def keep(self, counted: Counted, seconds: float) -> None:
        """Let it go after so many seconds, unless it is released before."""
        limit = self._engine.later(max(0.0, seconds), lambda: self._release(counted, "limit"), self._tally)
        self._waiting[counted] = limit

    def release(self, by: str, chosen: Callable[[Counted], bool]) -> None:
        """Let go of those that are ``chosen``; from any thread, it is done on return."""
        if self._waiting:
            self._engine.run(lambda: self._release_all(by, chosen))

    def _release_all(self, by: str, chosen: Callable[[Counted], bool]) -> None:
        for counted in [counted for counted in self._waiting if chosen(counted)]:
            self._release(counted, by)

    def _release(self, counted: Counted, by: str) -> None:
        self._waiting.pop(counted).cancel()
        counted.let_go(by)


class Counted:
    """The facts of one answer, recorded in the order in which they become true."""

    def __init__(
        self,
        plan: Plan,
        request: HttpReceived,
        route: Route,
        served: Served,
        *,
        tally: Tally,
        effects: Effects,
        hold_limit: float | None,
        nonce: str,
        retry_after: float | None,
    ) -> None:
        self.lane = tally.lane
        self.tap: Callable[[bytes], None] | None = self._begin
        self.served = served
        self._plan = plan
        self._request = request.request
        self._route = route
        self._tally = tally
        self._effects = effects
        self._hold_limit = hold_limit
        self._nonce = nonce
        self._retry_after = retry_after
        self._status = 0
        self._until = 0.0

    def note(self, note: Note) -> None:
        """A fact to record before the bytes that follow."""
        self._tally.say(note.kind, **note.fields)

    def sent(self, count: int) -> None:
        """The receipt says how many."""

    def reached(self, at: int) -> None:
        """Nobody asks."""

    def _begin(self, data: bytes) -> None:
        self._status, self.tap = self._plan.status, None

    # -- holds ------------------------------------------------------------------------------------------

    def held(self, hold: Hold, sent: int) -> float | None:
        """A hold begins; how long it may last, or None where it has been let go already."""
        limit = hold.limit
        if self._is_hold:
            self._tally.say(StreamHeld, stream=self._request, hold=self._hold, why=hold.why, sent=sent)
            if self.served.let_go:
                return None
            limit = hold.limit if self._hold_limit is None else self._hold_limit
        self._until = clock.now() + limit
        return limit

    def released(self, hold: Hold, by: str) -> None:
        """A hold is over; for a client that has gone, what it asked for is still to come."""
        if by == "client-closed" and self._route.effect:
            self._effects.keep(self, self._until - clock.now())
        else:
            self.let_go(by)

    def let_go(self, by: str) -> None:
        """The answer is due, whether or not there is somebody to take it."""
        if self._is_hold:
            self._tally.say(StreamReleased, stream=self._request, hold=self._hold, by=by)
        if self._route.effect:
            self.affect()

    def affect(self) -> None:
        """What the request asked for happens now."""
        count = self.served.affect()
        self._tally.say(EffectDone, request=self._request, route=self._route.path, count=count)

    @property
    def _is_hold(self) -> bool:
        return self._route.does == "hold"  # a slow answer is on its way by itself

    @property
    def _hold(self) -> str:
        return f"{self._request}.hold"

    # -- the end ----------------------------------------------------------------------------------------

    def client_closed(self) -> None:
        """The client closed before the answer was over."""
        self._tally.say(ClientClosed, stream=self._request)
        self.served.closed.set()

    def ended(self, end: str, at: int, flooded: int, gap: float) -> None:
        """The receipt."""
        end = "dropped" if end == "cut" and not self._status else _ENDS.get(end, end)
        self._tally.say(
            HttpAnswered,
            request=self._request,
            status=self._status,
            end=end,
            failed=end != "clean" or self._status >= 400,
            sent=at + flooded,
            planned=planned_size(self._plan),
            retry_after=self._retry_after,
            nonce=self._nonce,
        )
