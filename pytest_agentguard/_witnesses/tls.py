"""TLS on a listener: a certificate for loopback, by an authority that clients are told to trust."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pytest_agentguard._core.errors import NotEncrypted, UsageError

_HANDSHAKE = b"\x16"  # the first byte of every TLS connection
_SHOWN_BYTES = 16  # of what is none
_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Authority:
    """Who has signed the certificate: ``pem`` is what a client trusts, ``context`` what a server needs."""

    pem: bytes
    context: ssl.SSLContext

    def encrypt(self, sock: socket.socket) -> socket.socket:
        """The server's end of an accepted connection; the handshake comes with the first bytes."""
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)


@lru_cache(maxsize=1)  # keys are slow to make, and nothing is secret about these
def authority() -> Authority:
    """The authority of this process. Raises ``UsageError`` where trustme is not installed."""
    try:
        import trustme
    except ImportError:
        raise UsageError(
            "counting_server.tls_origin makes its certificate with trustme, which is not installed: "
            "pip install trustme"
        ) from None
    signer = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = TlsSocket
    signer.issue_cert(*_NAMES).configure_cert(context)
    return Authority(signer.cert_pem.bytes(), context)


class TlsSocket(ssl.SSLSocket):
    """Looks like a plain non-blocking socket to a connection: same calls, same exceptions."""

    _is_handshake = False  # what has come begins like one

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Bytes, decrypted; what is waiting behind the first record is still in the kernel."""
        if not self._is_handshake:
            try:
                self._look()
            except OSError:
                if getattr(self, "_sslobj", None) is None:  # while it is made: nobody else has it yet
                    self.close()
                raise
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLError as error:  # no TLS, a certificate that the client does not trust, a cut
            raise ConnectionResetError(str(error)) from error

    def _look(self) -> None:
        first = socket.socket.recv(self, _SHOWN_BYTES, socket.MSG_PEEK)
        if first and first[:1] != _HANDSHAKE:
            raise NotEncrypted(first)
        self._is_handshake = bool(first)

    def send(self, data: Any, flags: int = 0) -> int:
        """How many bytes were taken."""
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionResetError(str(error)) from error

    def sendmsg(self, buffers: Iterable[Any], *unused: Any) -> int:  # type: ignore[override]
        """As ``send``; TLS has no call for several pieces."""
        return self.send(b"".join(buffers))

    def shutdown(self, how: int) -> None:
        """Say that no more will come, in TLS and in TCP."""
        try:
            self.unwrap()
        except (OSError, ValueError):  # the client's answer has not come, or there was no handshake yet
            pass
        super().shutdown(how)
