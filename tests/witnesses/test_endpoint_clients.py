"""The same endpoint under asyncio, trio, threads and child processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable

import pytest
import trio
from endpoint_kit import LIMIT, Client, ask, request, serving

from pytest_agentguard import LimitReached, Reply
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.signals import Signal
from pytest_agentguard.events import ClientClosed, RequestReceived, StreamEnded

OK = Reply().text("a ", "b")


async def _asyncio_answer(endpoint: Endpoint) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    try:
        writer.write(request())
        return await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), LIMIT)
    finally:
        writer.close()
        await writer.wait_closed()


async def _trio_answer(endpoint: Endpoint) -> bytes:
    stream = await trio.open_tcp_stream("127.0.0.1", endpoint.port)
    async with stream:
        await stream.send_all(request())
        received = b""
        with trio.fail_after(LIMIT):
            while not received.endswith(b"0\r\n\r\n"):
                received += await stream.receive_some()
        return received


def _in_asyncio(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


def _in_trio(work: Callable[[], Awaitable[None]]) -> None:
    trio.run(work)


BACKENDS = pytest.mark.parametrize(
    ("run", "answer"), [(_in_asyncio, _asyncio_answer), (_in_trio, _trio_answer)], ids=["asyncio", "trio"]
)


@BACKENDS
def test_async_client_is_answered(
    run: Callable[[Callable[[], Awaitable[None]]], None], answer: Callable[[Endpoint], Awaitable[bytes]]
) -> None:
    with serving() as (endpoint, _):
        endpoint.play(OK)

        async def work() -> None:
            assert b"data: done" in await answer(endpoint)

        run(work)


def test_held_request_is_awaited_and_its_close_too_in_asyncio() -> None:
    with serving() as (endpoint, ledger):
        held = endpoint.play(OK.hold(limit=60))

        async def work() -> None:
            task = asyncio.create_task(_asyncio_answer(endpoint))
            await held.received
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await held.closed

        _in_asyncio(work)
        assert len(ledger.of(ClientClosed)) == 1
        assert endpoint.requests.count == 1


def test_held_request_is_awaited_and_its_close_too_in_trio() -> None:
    with serving() as (endpoint, ledger):
        held = endpoint.play(OK.hold(limit=60))

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_trio_answer, endpoint)
                await held.received
                nursery.cancel_scope.cancel()
            await held.closed

        _in_trio(work)
        assert len(ledger.of(ClientClosed)) == 1


@pytest.mark.parametrize("run", [_in_asyncio, _in_trio], ids=["asyncio", "trio"])
def test_awaited_signal_that_is_never_set_reaches_its_limit(
    run: Callable[[Callable[[], Awaitable[None]]], None],
) -> None:
    async def work() -> None:
        with pytest.raises(LimitReached, match=r"signal=received not set within limit=0\.01 s"):
            await Signal("received", limit=0.01)

    run(work)


@pytest.mark.parametrize("run", [_in_asyncio, _in_trio], ids=["asyncio", "trio"])
def test_signal_that_is_set_already_is_passed_at_once(
    run: Callable[[Callable[[], Awaitable[None]]], None],
) -> None:
    signal = Signal("ended")
    signal.set()

    async def work() -> None:
        await signal

    run(work)
    assert repr(signal) == "<Signal ended set>"


def test_hundred_streams_at_once_lose_nothing() -> None:
    with serving() as (endpoint, ledger):
        held = endpoint.play(OK.hold(limit=60).times(100))
        clients = [Client(endpoint).post() for _ in range(100)]
        assert endpoint.requests.wait(100, LIMIT)
        held.release()
        answers = [client.answer() for client in clients]
        for client in clients:
            client.socket.close()
        endpoint.settle()
        assert {answer.body for answer in answers} == {answers[0].body}
        assert [end.end for end in ledger.of(StreamEnded)] == ["clean"] * 100
        assert len({received.request for received in ledger.of(RequestReceived)}) == 100


def test_threads_share_an_endpoint() -> None:
    with serving() as (endpoint, _):
        endpoint.play(OK.times(8))
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda: statuses.append(ask(endpoint).status)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert statuses == [200] * 8


def test_child_process_is_answered() -> None:
    program = (
        "import sys, urllib.request as u\n"
        "print(u.urlopen(u.Request(sys.argv[1], b'{\"stream\": true}'), timeout=5).read().decode())"
    )
    with serving() as (endpoint, _):
        endpoint.play(OK)
        argv = [sys.executable, "-c", program, f"{endpoint.base_url('tiny')}/tiny"]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=30, env={**os.environ, **endpoint.env()}
        )
    assert "data: done" in done.stdout, done.stderr


def test_forked_child_talks_to_the_endpoint_and_cannot_close_it() -> None:
    with serving() as (endpoint, ledger):
        endpoint.play(OK.times(2))
        assert ask(endpoint).status == 200
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                endpoint.close()
                endpoint.release()
                endpoint._engine.stop()
                code = 0 if ask(endpoint).status == 200 else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        endpoint.settle()
        assert len(ledger.of(RequestReceived)) == 2


def test_connection_that_a_forked_child_inherited_is_still_reset() -> None:
    with serving() as (endpoint, _), Client(endpoint) as client:
        held = endpoint.play(OK.hold(limit=60).reset())
        client.post()
        assert held.received.wait(LIMIT)
        endpoint.settle()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            os.read(reading, 1)  # lives until the parent says so
            os._exit(0)
        os.close(reading)
        try:
            held.release()
            with pytest.raises(ConnectionResetError):
                client.rest()
        finally:
            os.close(writing)
            os.waitpid(pid, 0)


def test_listener_is_not_inherited_by_programs() -> None:
    with serving() as (endpoint, _):
        assert not endpoint._listener._socket.get_inheritable()
