"""One loopback port: accepts connections, bounded, and hands their requests to a service."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import AgentguardError
from pytest_agentguard._witnesses.connection import Connection, Service
from pytest_agentguard._witnesses.delivery import Exchange
from pytest_agentguard._witnesses.engine import READ, Engine

_ACCEPTED_AT_ONCE = 64
_BREATH = 0.05  # s without accepting when the process has no file descriptor left
_TURNED_AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Listener:
    """A listening socket on loopback. Connects are taken by the kernel from the first moment on.

    ``address`` is 127.0.0.1 or ::1, ``port`` 0 for any. ``admit`` is given each accepted socket and returns
    the one that is served in its place.
    """

    def __init__(
        self,
        engine: Engine,
        service: Service,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        admit: Callable[[socket.socket], socket.socket] | None = None,
    ) -> None:
        self._engine = engine
        self._service = service
        self._admit = admit
        self._closed = False
        self._connections: dict[Connection, None] = {}  # in order of arrival
        self._socket = _listening_socket(address, port)
        self.port: int = self._socket.getsockname()[1]
        if not engine.listen(self._socket, self):
            self._socket.close()
            raise AgentguardError("the engine has been stopped")

    def release(self, by: str, chosen: Callable[[Exchange], bool]) -> None:
        """Let go of the holds of every answer that is ``chosen``, and return when that is done."""
        if not self._closed:
            self._engine.run(lambda: self._release(by, chosen))

    @property
    def holds(self) -> bool:
        """Whether an answer may be held, or is about to be; from any thread."""
        return not self._engine.is_quiet() or any(
            connection.delivery is not None and connection.delivery.holds
            for connection in list(self._connections)
        )

    def drain(self) -> None:
        """Accept and read everything that clients have sent by now; it is done on return."""
        if not self._closed:
            self._engine.run(self._drain)

    def close(self) -> None:
        """Stop listening and end every connection; it is done on return."""
        self._closed = True
        if not self._engine.run(self._close):
            self._socket.close()

    def forget(self, connection: Connection) -> None:
        """A connection has been closed."""
        self._connections.pop(connection, None)

    # -- on the engine's thread -----------------------------------------------------------------------

    def ready(self, events: int) -> None:
        """Clients wait to be accepted."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._pause()
                return
            self._accept(sock)

    def failed(self, error: BaseException) -> None:
        """Accepting raised."""
        self._service.failed(error)

    def _accept(self, sock: socket.socket) -> None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._admit is not None:
                sock = self._admit(sock)
        except OSError:  # the client has gone
            sock.close()
            return
        except BaseException:
            sock.close()
            raise
        if len(self._connections) >= limits.CONNECTIONS and not self._evict():
            self._turn_away(sock)
            return
        self._connections[Connection(sock, self, self._engine, self._service)] = None

    def _turn_away(self, sock: socket.socket) -> None:
        try:
            self._service.crowded()
            sock.send(_TURNED_AWAY)
        except OSError:  # the client has gone, or waits for a handshake
            pass
        finally:
            sock.close()

    def _evict(self) -> bool:
        """Close the oldest connection that waits for nothing."""
        idle = next((connection for connection in self._connections if connection.idle), None)
        if idle is not None:
            idle.close()
        return idle is not None

    def _pause(self) -> None:
        self._engine.unwatch(self._socket)
        self._engine.later(_BREATH, self._resume, self)

    def _resume(self) -> None:
        if self._socket.fileno() >= 0:
            self._engine.watch(self._socket, READ, self)

    def _release(self, by: str, chosen: Callable[[Exchange], bool]) -> None:
        for connection in list(self._connections):
            delivery = connection.delivery
            if delivery is not None and chosen(delivery.exchange):
                delivery.release(by)

    def _drain(self) -> None:
        for _ in range(0, limits.CLIENT_BACKLOG, _ACCEPTED_AT_ONCE):
            self.ready(READ)
        for connection in list(self._connections):
            connection.drain()

    def _close(self) -> None:
        self._engine.unwatch(self._socket)
        self._socket.close()
        for connection in list(self._connections):
            connection.abandon()


def _listening_socket(address: str, port: int) -> socket.socket:
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise AgentguardError(f"no listener on {address}: {error}") from error
    try:
        sock.bind((address, port))
        sock.listen(limits.CLIENT_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise AgentguardError(f"no listener on {address}: {error}") from error
    return sock
