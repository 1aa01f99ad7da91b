"""Keeps the agent's process offline: every connect outside loopback is refused, and is a fact.

So is the look-up of a name, which asks a server; a numeric address is only taken apart, and nobody is asked.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from pytest_agentguard._core.events import ConnectBlocked, Witness
from pytest_agentguard._core.ledger import Recorder

_LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname")
_SENDS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_GETADDRINFO = socket.getaddrinfo.__code__
_EVENTS = frozenset((*_LOOKUPS, *_SENDS))


class Offline(ConnectionRefusedError):
    """A connect that left loopback and was refused here, before anything was sent."""


class Guard:
    """An audit hook. It cannot be taken out again; until it has a recorder it refuses without recording."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._lane: Callable[[], str] = str

    def install(self) -> None:
        """Watch this process from now on, and every process forked from it."""
        sys.addaudithook(self._hook)

    def record_in(self, recorder: Recorder, lane: Callable[[], str]) -> None:
        """Record what is refused from now on; ``lane`` says on whose behalf the current thread or task is."""
        self._recorder = recorder
        self._lane = lane

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        address = _forbidden(event, args)
        if address is None or _is_numeric_only(sys._getframe(1)):
            return
        if self._recorder is not None:
            what = "lookup" if event in _LOOKUPS else "connect"
            self._recorder.record(
                ConnectBlocked, witness=Witness.RUNNER, lane=self._lane(), address=address, what=what
            )
        raise Offline(errno.ECONNREFUSED, f"agents under test are offline: {address}")


def _forbidden(event: str, args: tuple[Any, ...]) -> str | None:
    """The address in words where it is not loopback, else None."""
    if event in _LOOKUPS:
        host = args[0]
        port = args[1] if len(args) > 1 else ""
        return None if is_local(host) or _is_numeric(host) else _shown(host, port)
    family, address = args[0].family, args[1]
    if family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return None
    return None if is_local(address[0]) else _shown(address[0], address[1])


def is_local(host: str | bytes | None) -> bool:
    """Whether a host or address, in any spelling that the system takes, stays on this machine's loopback."""
    text = (host.decode("latin-1") if isinstance(host, bytes) else host or "").lower().rstrip(".")
    if text in ("", "localhost") or text.endswith(".localhost"):
        return True
    address = _address(text.partition("%")[0])
    if address is None:
        return text == socket.gethostname().lower()
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def _is_numeric_only(caller: FrameType) -> bool:
    """Whether this is a look-up that takes numeric addresses only; the event itself does not say so."""
    if caller.f_code is not _GETADDRINFO:
        return False
    flags = caller.f_locals.get("flags", 0)
    return isinstance(flags, int) and bool(flags & socket.AI_NUMERICHOST)


def _is_numeric(host: str | bytes | None) -> bool:
    """Whether a look-up of this host asks nobody; what a resolver may take for a name is none of them."""
    text = host.decode("latin-1") if isinstance(host, bytes) else host or ""
    return not any(c.isspace() for c in text) and _address(text.partition("%")[0]) is not None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The numeric address; also of ``127.1``, ``0x7f000001`` and their like, which resolvers take as well."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except (OSError, ValueError):
        return None


def _shown(host: str | bytes | None, port: Any) -> str:
    text = host.decode("latin-1") if isinstance(host, bytes) else str(host)
    return f"{text}:{port}" if port not in ("", None) else text
