"""Row 16: memory stays bounded whatever a client does, and a hundred streams at once lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from bench_requests_kept_alive import planned
from measuring import Row
from peers import BODY, ask, connected

from pytest_agentguard import Ledger, Reply, catalogue
from pytest_agentguard._core import limits
from pytest_agentguard._runner import system
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard.events import Claim, StreamEnded, Witness

_MIB = 1024 * 1024
_PATH = "/v1/chat/completions"
_STREAMS = 100
_STREAM = Reply().text(*["word "] * 200).split(by="event")


def rows() -> Iterator[Row]:
    """What a client does, at one size and at eight times as much; then many streams."""
    engine = Engine()
    try:
        actions: dict[str, Callable[[Engine, int], object]] = {
            "one endless request body": _body,
            "requests without end on one connection": _requests,
            "an unread flood": _unread,
            "facts without end": _facts,
        }
        for name, action in actions.items():
            action(engine, 1)  # what is made once is there now
            few, many = (_peak(partial(action, engine, n)) for n in (1, 8))
            yield Row(
                number="16",
                what=f"growth of the peak memory from n to 8 n: {name}",
                against="–",
                budget=limits.MEMORY_GROWTH_BYTES / _MIB,
                value=None if few is None or many is None else (many - few) / _MIB,
                unit="MiB",
                detail="" if few is not None else "needs Linux, where a peak can be reset",
            )
        yield _many_streams(engine)
    finally:
        engine.stop()


def _peak(action: Callable[[], object]) -> int | None:
    """The most memory that this process has while ``action`` runs; None where the system does not say."""
    gc.collect()
    if not system.reset_peak():
        return None
    action()
    return system.peak_bytes()


def _endpoint(engine: Engine) -> Endpoint:
    return Endpoint(Ledger(clock=time.monotonic), catalogue.dialects(), engine=engine)


def _body(engine: Engine, n: int) -> None:
    size = n * 16 * _MIB
    with _endpoint(engine) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(f"POST {_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            for _ in range(size // _MIB):
                client.sendall(b"x" * _MIB)
        assert client.recv(65536)


def _requests(engine: Engine, n: int) -> None:
    with _endpoint(engine) as server, closing(connected(server.root_url)) as client:
        for _ in range(n * 150):
            ask(client, _PATH)
        assert server.requests.count <= limits.REQUESTS


def _unread(engine: Engine, n: int) -> None:
    with _endpoint(engine) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        server.play(Reply().text("go on").flood("text", n * 32 * _MIB))
        head = f"POST {_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n"
        client.sendall(head.encode() + BODY)
        assert server.requests.wait(1, 10)
        threading.Event().wait(0.2)  # nothing is read, so nothing more is to be had


def _facts(engine: Engine, n: int) -> None:
    ledger = Ledger(limit_events=limits.LEDGER_EVENTS)
    for k in range(n * limits.LEDGER_EVENTS):
        ledger.record(Claim, witness=Witness.AGENT, what=k)
    assert len(ledger._raw) <= limits.LEDGER_EVENTS + 1


# -- many at once ---------------------------------------------------------------------------------


def _many_streams(engine: Engine) -> Row:
    ledger = Ledger(clock=time.monotonic)
    size = len(planned(_STREAM).body)
    with Endpoint(ledger, catalogue.dialects(), engine=engine) as server:
        played = server.play(_STREAM.hold().times(_STREAMS))

        def let_go() -> None:
            server.requests.wait(_STREAMS, 30)  # every one of them is open now
            played.release()

        releasing = threading.Thread(target=let_go)
        releasing.start()
        read = asyncio.run(_read_all(server.port))
        releasing.join()
        server.settle()
    whole = sum(count == size for count in read)
    complete = len(ledger.of(StreamEnded, complete=True, sent=size))
    return Row(
        number="16",
        what=f"{_STREAMS} streams at once, lost or not whole",
        against="–",
        budget=0.0,
        value=float(2 * _STREAMS - whole - complete),
        unit="streams",
        detail=f"read whole {whole}, receipts complete {complete}, {size} bytes each",
    )


async def _read_all(port: int) -> list[int]:
    return await asyncio.gather(*(_read(port) for _ in range(_STREAMS)))


async def _read(port: int) -> int:
    """The size of the body, its chunks taken apart."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
    await reader.readuntil(b"\r\n\r\n")
    total = 0
    while size := int(await reader.readline(), 16):
        total += len(await reader.readexactly(size))
        await reader.readline()
    writer.close()
    return total
