"""What a test can wait for: a request that has arrived, a client that has closed."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import trio
from counting_kit import CLIENT, LIMIT, asked, counting
from endpoint_kit import Client

from pytest_agentguard import LimitReached


def test_a_thread_waits_for_a_request_and_for_its_client_to_close() -> None:
    with counting() as (server, _):
        held = server.route("/x", hold=True)
        assert not held.arrived.is_set()
        with Client(server) as client:
            client.send(asked("/x"))
            assert held.arrived.wait(LIMIT)
            assert not held.closed.is_set()
        assert held.closed.wait(LIMIT)


async def test_a_task_of_asyncio_awaits_both() -> None:
    with counting() as (server, _):
        held = server.route("/x", hold=True)
        async with httpx.AsyncClient(**CLIENT) as client:
            task = asyncio.create_task(client.get(held.url))
            await held.arrived
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await held.closed
        assert held.received == 1


def test_a_task_of_trio_awaits_both() -> None:
    async def body() -> None:
        with counting() as (server, _):
            held = server.route("/x", hold=True)
            async with httpx.AsyncClient(**CLIENT) as client, trio.open_nursery() as nursery:
                nursery.start_soon(client.get, held.url)
                await held.arrived
                nursery.cancel_scope.cancel()
            await held.closed
            assert held.received == 1

    trio.run(body)


def test_an_await_is_bounded() -> None:
    with counting() as (server, _):
        route = server.route("/x")
        route.arrived._limit = 0.01
        with pytest.raises(LimitReached, match=r"signal=/x arrived not set within limit=0\.01 s"):
            asyncio.run(awaited(route.arrived))


async def awaited(signal: object) -> None:
    await signal  # type: ignore[misc]


def test_a_thread_waits_for_so_many_requests() -> None:
    with counting() as (server, _), Client(server) as client:
        route = server.route("/x")
        client.send(asked("/x") * 3)
        assert route.wait(3, LIMIT)
