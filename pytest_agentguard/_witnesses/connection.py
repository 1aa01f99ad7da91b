"""One client connection: requests in, one answer at a time, and an end of the planned kind."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import NotEncrypted, ProtocolError
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._witnesses.delivery import Delivery, Exchange
from pytest_agentguard._witnesses.engine import READ, WRITE, Engine, Timer
from pytest_agentguard._witnesses.framing import fitted, frame, without_body
from pytest_agentguard._witnesses.http_request import CONTINUE, HttpRequest, RequestReader

if TYPE_CHECKING:
    from pytest_agentguard._witnesses.listener import Listener

_RECEIVE_BYTES = 64 * 1024
_DRAINED_AT_MOST = 4 * limits.BODY_BYTES // _RECEIVE_BYTES  # reads of one connection at a barrier
_RESET_NOW = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time
_RESET_LOOK = 0.002  # s between looks at a queue that has not left yet
_REFUSAL = b"agentguard: this is no HTTP request that can be answered\n"


class Service(Protocol):
    """Who answers the requests of a listener. Called on the engine's thread."""

    hold_limit: float | None

    def answer(self, request: HttpRequest) -> tuple[Plan, Exchange]:
        """The plan of an answer, and who is told what became of it."""

    def refused(self, why: str, first: bytes) -> None:
        """A client sent what is no request; it began with ``first``."""

    def crowded(self) -> None:
        """A connection was turned away, since too many are open."""

    def failed(self, error: BaseException) -> None:
        """The witness itself broke."""


class Connection:
    """Reads requests and has each answered before the next one is looked at."""

    def __init__(self, sock: socket.socket, listener: Listener, engine: Engine, service: Service) -> None:
        self.delivery: Delivery | None = None
        self._socket = sock
        self._listener = listener
        self._engine = engine
        self._service = service
        self._reader = RequestReader()
        self._ahead = 0  # bytes read while an answer was under way
        self._events = READ
        self._pumping = False
        self._state = "open"  # open, draining (we have said FIN), resetting, closed
        self._reset_done: Callable[[int], None] = _nobody
        engine.watch(sock, READ, self)

    @property
    def idle(self) -> bool:
        """Whether nothing of a request has come and nothing is being answered."""
        return self._state == "open" and self.delivery is None and self._reader.untouched

    # -- what the engine calls ----------------------------------------------------------------------

    def ready(self, events: int) -> None:
        """The socket can be read, written or both."""
        if events & READ:
            self._receive()
        if events & WRITE and self.delivery is not None and self._state == "open":
            self.delivery.writable()

    def failed(self, error: BaseException) -> None:
        """Something here raised: say so, and end the connection."""
        try:
            self._service.failed(error)
            if self.delivery is not None:
                self.delivery.failed()
        finally:
            self.close()

    # -- requests -------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Read everything that has come by now; the connection that asks for it has been read already."""
        try:
            for _ in range(_DRAINED_AT_MOST):
                if self._pumping or not (self._events & READ and self._receive()):
                    return
        except BaseException as error:
            self.failed(error)

    def _receive(self) -> bool:
        """Read once; whether there may be more."""
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except NotEncrypted as error:
            self._service.refused(str(error), error.first)
            self.close()
            return False
        except OSError:
            self._left()
            return False
        if not data:
            self._left()
        elif self._state == "open":
            self._reader.feed(data)
            if self.delivery is None:
                self._pump()
            else:
                self._read_ahead(len(data))
        return bool(data) and self._state != "closed"

    def _read_ahead(self, count: int) -> None:
        """Bounded: beyond the bound the client has to wait."""
        self._ahead += count
        if self._ahead > limits.PIPELINE_BYTES:
            self._watch(self._events & ~READ)

    def _left(self) -> None:
        """The client has closed, or reset."""
        if self.delivery is not None and self._state == "open":
            self.delivery.client_closed()
        elif self._state != "resetting":
            self.close()

    def _pump(self) -> None:
        """Have every request answered that is whole, one after the other."""
        self._pumping = True
        try:
            while self._state == "open" and self.delivery is None:
                request = self._reader.next()
                if request is None:
                    if self._reader.wants_continue():
                        self._socket.send(CONTINUE)
                    return
                self._answer(request)
        except ProtocolError as error:
            self._refuse(str(error))
        except ConnectionError:
            self._left()
        finally:
            self._pumping = False

    def _answer(self, request: HttpRequest) -> None:
        plan, exchange = self._service.answer(request)
        plan = without_body(plan) if request.method == "HEAD" else fitted(plan)
        framed = frame(
            plan,
            version=request.version,
            wants_close=request.wants_close,
            hold_limit=self._service.hold_limit,
        )
        self.delivery = Delivery(plan, framed, exchange, self)
        self.delivery.advance()

    def _refuse(self, why: str) -> None:
        self._service.refused(why, self._reader.first)
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(_REFUSAL)}\r\n"
        try:
            self._socket.send(head.encode() + b"Connection: close\r\n\r\n" + _REFUSAL)
        except OSError:
            pass
        self.shut()

    # -- what a delivery asks for -----------------------------------------------------------------------

    def send(self, pieces: list[bytes | memoryview]) -> int:
        """Hand bytes to the socket; how many it took. Raises ``ConnectionError`` if the client has gone."""
        try:
            return self._socket.send(pieces[0]) if len(pieces) == 1 else self._socket.sendmsg(pieces)
        except (BlockingIOError, InterruptedError):
            return 0

    def want_writable(self, wanted: bool) -> None:
        """Ask for ``Delivery.writable`` when the socket takes bytes again."""
        self._watch(self._events | WRITE if wanted else self._events & ~WRITE)

    def later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run ``action`` after ``seconds``."""
        return self._engine.later(seconds, action, self)

    def keep(self) -> None:
        """The answer is over; go on with the next request."""
        self.delivery = None
        self._ahead = 0
        self._reader = self._reader.following()
        self._watch(READ)
        if not self._pumping:
            self._pump()

    def shut(self) -> None:
        """Say FIN, then read away what the client still sends: unread input would turn the FIN into a RST."""
        if self._state != "open":
            return
        self._state = "draining"
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._watch(READ)
        self.later(limits.DRAIN_SECONDS, self.close)

    def reset(self, done: Callable[[int], None]) -> None:
        """End with a RST once what was sent has left; ``done`` is told how many bytes never did."""
        self._state = "resetting"
        self._reset_done = done
        self._watch(0)
        self._reset_when_sent(limits.RESET_SECONDS)

    def _reset_when_sent(self, patience: float) -> None:
        if self._state != "resetting":
            return
        unsent = _unsent(self._socket)
        if unsent and patience > 0:
            self.later(_RESET_LOOK, lambda: self._reset_when_sent(patience - _RESET_LOOK))
            return
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_NOW)
        self.close()
        self._reset_done(unsent)

    def drop(self) -> None:
        """Close at once."""
        self.close()

    # -- the end ----------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """The listener closes."""
        if self._state == "resetting":
            self._reset_when_sent(0.0)
        elif self.delivery is not None:
            self.delivery.abandon()
        self.close()

    def close(self) -> None:
        """Close the socket; again it does nothing."""
        if self._state == "closed":
            return
        self._state = "closed"
        self._engine.unwatch(self._socket)
        self._socket.close()
        self._listener.forget(self)

    def _watch(self, events: int) -> None:
        if events == self._events or self._state == "closed":
            return
        self._events = events
        if events:
            self._engine.watch(self._socket, events, self)
        else:
            self._engine.unwatch(self._socket)


def _nobody(unsent: int) -> None:
    """Nobody waits for a reset."""


def _unsent(sock: socket.socket) -> int:
    """Bytes that the kernel has taken and the peer has not acknowledged; 0 where that cannot be known."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    try:
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    except OSError:
        return 0
    return int(struct.unpack("i", answer)[0])
