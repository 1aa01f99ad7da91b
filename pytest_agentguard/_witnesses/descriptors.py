"""Open descriptors: what is there, and which of those that are new nobody can want to keep.

An idle connection, a log, a library's own file are kept on purpose, and look like leaks. So what is taken for
one is told apart by what the kernel and Python know of it, and whatever is not known is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import socket
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from pytest_agentguard._witnesses.origins import Origins
from pytest_agentguard._witnesses.places import Place

_fstat, _listdir, _Socket = os.fstat, os.listdir, socket.socket  # taken now: an agent may replace them
_INET = (socket.AF_INET, socket.AF_INET6)
_NOT_THEIRS = ("/proc/", "/sys/", "/dev/")

Key = tuple[int, int, int]
"""Descriptor, device, inode; a socket is the same by whatever descriptor, which is left 0."""


class Open(NamedTuple):
    """Something that is open and that nobody will use any more."""

    kind: str
    what: str
    place: Place | None


def opened() -> dict[Key, int]:
    """Every open file, pipe and socket of this process; two calls can be compared."""
    found: dict[Key, int] = {}
    for name in _listdir("/dev/fd"):
        try:
            descriptor = int(name)
            status = _fstat(descriptor)
        except (OSError, ValueError):  # the one of the listing itself is closed by now
            continue
        mode = status.st_mode & 0o170000
        if mode == 0o140000:
            found[0, status.st_dev, status.st_ino] = descriptor
        elif mode in (0o100000, 0o010000):  # a device, epoll and their like are of no interest
            found[descriptor, status.st_dev, status.st_ino] = descriptor
    return found


def forgotten(
    new: Mapping[Key, int], origins: Origins, *, ports: Collection[int] = (), ignored: Collection[str] = ()
) -> Iterator[Open]:
    """What is a leak among ``new`` descriptors.

    ``ports`` are those at which the witnesses listen, ``ignored`` paths of files that are theirs.
    """
    for descriptor in new.values():
        with contextlib.suppress(OSError):  # closed meanwhile
            status = _fstat(descriptor)
            if stat.S_ISSOCK(status.st_mode):
                found = _socket(descriptor, origins, ports)
            elif stat.S_ISFIFO(status.st_mode):
                found = _pipe(descriptor)
            else:
                found = _file(descriptor, status, origins, ignored)
            if found is not None:
                yield found


# -- sockets ------------------------------------------------------------------------------------------


def _socket(descriptor: int, origins: Origins, ports: Collection[int]) -> Open | None:
    """One that listens, or a connection with an answer that nobody has read.

    Without such an answer, or with the end of file of its peer, it may well be one of a pool.
    """
    with _Socket(fileno=os.dup(descriptor)) as copy:
        if copy.type != socket.SOCK_STREAM or copy.family not in (*_INET, socket.AF_UNIX):
            return None
        own = copy.getsockname()
        if copy.family in _INET and own[1] in ports:
            return None
        place = origins.made(partial(_has_descriptor, descriptor))
        if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return Open("listener", f"listening on {_address(own)}", place)
        if copy.family in _INET and copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            what = f"connected to {_address(copy.getpeername())} with unread data"
            return Open("socket", what, place)
    return None


def _has_descriptor(descriptor: int, one: Any) -> bool:
    return isinstance(one, _Socket) and one.fileno() == descriptor


def _address(address: Any) -> str:
    if isinstance(address, tuple):
        return f"{address[0]}:{address[1]}"
    return os.fsdecode(address).replace("\0", "@")


# -- files and pipes ----------------------------------------------------------------------------------


def _pipe(descriptor: int) -> Open | None:
    """One whose other end is closed, so that nothing can come or go any more."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    events = poll.poll(0)
    if events and events[0][1] & (select.POLLHUP | select.POLLERR):
        end = "write" if events[0][1] & select.POLLHUP else "read"
        return Open("file", f"pipe whose {end} end is closed", None)
    return None


def _file(descriptor: int, status: os.stat_result, origins: Origins, ignored: Collection[str]) -> Open | None:
    """One that Python code has opened, unless it is kept on purpose."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    path = _path(descriptor)
    if flags & os.O_APPEND or path in ignored or path.startswith(_of_installation()):
        return None
    is_opened, place = origins.opened(path, status)
    if not is_opened or descriptor in _logs() or _is_mapped(status):
        return None
    way = {os.O_RDONLY: "reading", os.O_WRONLY: "writing"}.get(flags & os.O_ACCMODE, "both")
    return Open("file", f"{path} open for {way}", place)


def _path(descriptor: int) -> str:
    """The path of an open file as the kernel has it, also of one that was deleted."""
    if sys.platform == "darwin":
        found = fcntl.fcntl(descriptor, 50, bytes(1024))  # F_GETPATH
        return os.fsdecode(found.rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")


def _of_installation() -> tuple[str, ...]:
    """Where packages have data that they keep open."""
    return (*_NOT_THEIRS, *(os.path.join(one, "") for one in (sys.prefix, sys.base_prefix)))


def _logs() -> set[int]:
    """The descriptors that handlers of ``logging`` write to."""
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    handlers = [one for logger in loggers for one in getattr(logger, "handlers", ())]
    return set(_filenos(getattr(handler, "stream", None) for handler in handlers))


def _filenos(streams: Iterable[Any]) -> Iterator[int]:
    for stream in streams:
        with contextlib.suppress(Exception):  # somebody else's object
            yield stream.fileno()


def _is_mapped(status: os.stat_result) -> bool:
    """Whether the file is mapped into memory; a map has a descriptor of its own."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any(line.split(None, 5)[4:5] == [str(status.st_ino)] for line in maps)
    except OSError:
        return False
