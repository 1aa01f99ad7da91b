"""Carries out one plan on one connection: sends, waits, holds, floods, and ends the way that was planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pytest_agentguard._core.plan import End, Hold, Note, Pause, Plan, Repeat, Send, Step
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.engine import Timer
from pytest_agentguard._witnesses.framing import Frame
from pytest_agentguard._witnesses.outbox import Outbox

_GATHER_BYTES = 64 * 1024  # ready sends are gathered up to this size
_TURN_BYTES = 1024 * 1024  # what one connection sends before the others have their turn
_SHORTEST_DRIP = 0.001


class Wire(Protocol):
    """What a delivery needs of its connection."""

    def send(self, pieces: list[bytes | memoryview]) -> int:
        """Hand bytes to the socket; how many it took. Raises ``ConnectionError`` if the client has gone."""

    def want_writable(self, wanted: bool) -> None:
        """Ask for ``Delivery.writable`` when the socket takes bytes again."""

    def later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run ``action`` after ``seconds``."""

    def keep(self) -> None:
        """The answer is over; the connection stays for the next request."""

    def shut(self) -> None:
        """The answer is over; the connection ends with a FIN."""

    def reset(self, done: Callable[[int], None]) -> None:
        """End with a RST once what was sent has left; ``done`` is told how many bytes never did."""

    def drop(self) -> None:
        """The connection is of no use any more."""


class Exchange(Protocol):
    """Who wants to know what became of an answer: records facts, and may let go of holds."""

    lane: str
    tap: Callable[[bytes], None] | None  # is given every wire byte that left

    def note(self, note: Note) -> None:
        """A fact to record before the bytes that follow."""

    def sent(self, count: int) -> None:
        """So many body bytes left, floods and drips included."""

    def reached(self, at: int) -> None:
        """So many bytes of the plan's body have left in all."""

    def held(self, hold: Hold, sent: int) -> float | None:
        """A hold begins; how long it may last, or None where it has been let go already."""

    def released(self, hold: Hold, by: str) -> None:
        """A hold is over."""

    def client_closed(self) -> None:
        """The client closed before the answer was over."""

    def ended(self, end: str, at: int, flooded: int, gap: float) -> None:
        """Nothing more will be sent."""


class Delivery:
    """One answer on its way. Lives on the engine's thread; every method returns at once."""

    def __init__(self, plan: Plan, frame: Frame, exchange: Exchange, wire: Wire) -> None:
        self.exchange = exchange
        self.over = False
        self._plan = plan
        self._frame = frame
        self._wire = wire
        self._steps = plan.steps()
        self._ahead: Step | None = None
        self._head: bytes = frame.head
        self._out = Outbox()
        self._sort = "body"  # what the waiting bytes are: body, flood or drip
        self._exhausted = False
        self._flood: Repeat | None = None
        self._flood_left = 0
        self._hold: Hold | None = None
        self._timers: list[Timer] = []
        self._at = 0
        self._flooded = 0
        self._sent_at = 0.0
        self._gap = 0.0

    @property
    def holds(self) -> bool:
        """Whether it waits to be released."""
        return self._hold is not None

    # -- what may happen to it ------------------------------------------------------------------------

    def advance(self) -> None:
        """Do everything that can be done now."""
        budget = _TURN_BYTES
        while not self.over and not self._timers:
            if self._out.size:
                budget -= self._flush()
                if self._out.size or budget <= 0:
                    self._wire.want_writable(not self.over)
                    return
            elif self._exhausted:
                self._finish()
            elif self._flood is not None:
                self._push_flood(self._flood)
            else:
                self._next()
        if not self.over:
            self._wire.want_writable(False)

    def writable(self) -> None:
        """The socket takes bytes again."""
        if not self._timers:
            self.advance()
            return
        self._flush()
        if not self.over:
            self._wire.want_writable(self._out.size > 0)

    def release(self, by: str) -> None:
        """Let go of a hold, if there is one."""
        hold = self._hold
        if hold is None or self.over:
            return
        self._let_go(by)
        self.advance()

    def client_closed(self) -> None:
        """The client went away."""
        if self.over:
            return
        if self._sent_at:  # the silence that the client left in
            self._gap = max(self._gap, clock.now() - self._sent_at)
        self.exchange.client_closed()
        self._let_go("client-closed")
        self._end("client-left")
        self._wire.drop()

    def abandon(self) -> None:
        """The endpoint closes: whatever is under way ends here."""
        if self.over:
            return
        self._let_go("run-ended")
        self._wire.drop()
        stalled = self._plan.end is End.STALLED and self._at >= self._plan.last
        self._end("stalled" if stalled else "cut")

    def failed(self) -> None:
        """The endpoint broke in the middle of it."""
        if not self.over:
            self._end("server-failed")
        self._wire.drop()

    # -- step by step -----------------------------------------------------------------------------------

    def _next(self) -> None:
        step = self._take()
        while type(step) is Note:
            self.exchange.note(step)
            step = self._take()
        match step:
            case Send(data):
                self._gather(data)
            case Pause(seconds):
                self._timers = [self._wire.later(seconds, self._resume)]
            case Hold() as hold if hold.why != "hold" and self._head:  # a response that stalls has begun
                self._ahead = hold
                self._push(b"")
            case Hold() as hold:
                self._start_hold(hold)
            case Repeat() as flood:
                self._flood, self._flood_left = flood, flood.size
            case None:
                self._exhaust()

    def _take(self) -> Step | None:
        step, self._ahead = self._ahead, None
        return next(self._steps, None) if step is None else step

    def _gather(self, data: bytes) -> None:
        """Queue a piece and those that are ready behind it, each as a chunk of its own."""
        self._push(data)
        out, lead, trail = self._out, self._frame.lead, self._frame.trail
        while out.size < _GATHER_BYTES:
            step = next(self._steps, None)
            if type(step) is Send:  # the one line that runs for every event of a long stream
                out.push(step.data, lead(len(step.data)), trail)
            elif step is None:
                self._exhaust()
                return
            else:
                self._ahead = step
                return

    def _exhaust(self) -> None:
        self._exhausted = True
        last = self._frame.last if self._plan.end is End.CLEAN else b""
        lead, self._head = self._head + last, b""
        if lead:
            self._out.push(b"", lead)

    def _push(self, data: bytes | memoryview, sort: str = "body") -> None:
        head, self._head = self._head, b""
        self._sort = sort
        if data:
            self._out.push(data, head + self._frame.lead(len(data)), self._frame.trail)
        elif head:
            self._out.push(b"", head)

    def _push_flood(self, flood: Repeat) -> None:
        size = min(len(flood.data), self._flood_left)
        self._flood_left -= size
        if size:
            self._push(flood.data if size == len(flood.data) else flood.data[:size], "flood")
        if not self._flood_left:
            self._flood = None

    def _flush(self) -> int:
        """Hand what waits to the socket; how many bytes it took."""
        if not self._out.size:
            return 0
        pieces = self._out.pieces()
        try:
            count = self._wire.send(pieces)
        except ConnectionError:
            self.client_closed()
            return 0
        if count:
            if self.exchange.tap is not None:
                self.exchange.tap(b"".join(pieces)[:count])
            now = clock.now()
            self._gap = max(self._gap, now - self._sent_at) if self._sent_at else 0.0
            self._sent_at = now
            self._count(self._out.left(count))
        return count

    def _count(self, body: int) -> None:
        self.exchange.sent(body)
        if self._sort == "flood":
            self._flooded += body
        elif self._sort == "body":
            self._at += body
            self.exchange.reached(self._at)

    # -- waiting ----------------------------------------------------------------------------------------

    def _resume(self) -> None:
        self._timers = []
        self.advance()

    def _start_hold(self, hold: Hold) -> None:
        limit = self.exchange.held(hold, self._at)
        if limit is None:
            self.exchange.released(hold, "test")
            return
        self._hold = hold
        self._timers = [self._wire.later(limit, lambda: self.release("limit"))]
        if hold.drip:
            self._drip_later(hold)

    def _drip_later(self, hold: Hold) -> None:
        self._timers[1:] = [self._wire.later(max(hold.every, _SHORTEST_DRIP), lambda: self._drip(hold))]

    def _drip(self, hold: Hold) -> None:
        if self.over or self._hold is not hold:
            return
        if not self._out.size:  # a client that does not read gets no pile
            self._push(hold.drip, "drip")
        self._flush()
        if not self.over:
            self._drip_later(hold)

    def _let_go(self, by: str) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        hold, self._hold = self._hold, None
        if hold is not None:
            self.exchange.released(hold, by)
            if self._plan.end is End.STALLED:
                self._out.clear()  # not another byte

    # -- the end ----------------------------------------------------------------------------------------

    def _finish(self) -> None:
        match self._plan.end:
            case End.RESET:
                self.over = True
                self._wire.reset(self._after_reset)
            case End.CLEAN if not self._frame.closes:
                self._end("clean")
                self._wire.keep()
            case end:
                self._wire.shut()
                self._end(end.value)

    def _after_reset(self, unsent: int) -> None:
        self._at = max(0, self._at - unsent)
        self._end("reset")

    def _end(self, how: str) -> None:
        self.over = True
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        self.exchange.ended(how, self._at, self._flooded, self._gap)
