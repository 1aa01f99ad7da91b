"""The endpoint client on httpx: what both kinds of agent send, and httpx's errors as ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

import anyio
import httpx

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.conversation import Conversation
from pytest_agentguard.reference.intake import EVENT_STREAM, JSON, Head, Intake
from pytest_agentguard.reference.retrying import Attempts, retry_after

TLS = httpx.create_ssl_context()  # loading certificates costs a hundred times what a client does
httpx.Client(verify=TLS).close()  # the first client imports what moves its bytes: here, not in every run


def settings(bounds: Bounds) -> dict[str, Any]:
    """How a client is made. A read timeout is about silence; the limits on the whole are set around it."""
    idle = bounds.idle_timeout
    timeout = httpx.Timeout(
        connect=bounds.connect_timeout, read=idle, write=idle, pool=bounds.connect_timeout
    )
    return {
        "verify": TLS,
        "timeout": timeout,
        "limits": httpx.Limits(max_keepalive_connections=0),  # nothing left over reaches the next exchange
        "follow_redirects": False,  # key and prompt go nowhere else
    }


def request(conversation: Conversation, attempts: Attempts) -> dict[str, Any]:
    """The next request, as arguments of ``client.stream``."""
    endpoint = conversation.job.endpoint
    headers = {
        **conversation.dialect.headers(endpoint.api_key),
        **attempts.headers(),
        "Content-Type": JSON,
        "Accept": EVENT_STREAM if conversation.job.mode == "stream" else JSON,
        "Accept-Encoding": "identity",  # what is not packed cannot unpack to more than was read
    }
    return {
        "method": "POST",
        "url": endpoint.base_url.rstrip("/") + conversation.dialect.PATH,
        "headers": headers,
        "content": json.dumps(conversation.request()).encode(),
    }


def head_of(response: httpx.Response) -> Head:
    """What the response's head says."""
    headers = response.headers
    return Head(
        response.status_code,
        headers.get("content-type", ""),
        headers.get("content-encoding", "").strip().lower(),
        headers.get("location", ""),
        retry_after(headers),
    )


@asynccontextmanager
async def body_of(response: httpx.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The chunks of a response; where they are not read to the end, a cancelled read ends the rest."""
    body = response.aiter_raw()
    try:
        yield body
    finally:
        with anyio.CancelScope() as scope:
            scope.cancel()
            async for _ in body:  # else trio finds generators that nobody has ended
                pass


@contextmanager
def reported(intake: Intake) -> Iterator[None]:
    """Transport errors become ours, and every error carries what had come by then."""
    try:
        with translated(intake):
            yield
    except errors.AgentError as error:
        error.status, error.retry_after = intake.head.status, intake.head.retry_after
        error.received = bytes(intake.kept)
        if not isinstance(error, errors.ReplyTooLarge):
            error.partial = intake.so_far()
        raise


class Incoming(Protocol):
    """A response on its way in."""

    bounds: Bounds
    received: int  # bytes


@contextmanager
def translated(intake: Incoming) -> Iterator[None]:
    """Transport errors become ours."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.PoolTimeout) as error:
        raise errors.Unreachable(f"no connection: {error!r}") from error
    except httpx.TimeoutException as error:
        silence = f"idle_timeout={intake.bounds.idle_timeout} s received={intake.received} bytes"
        raise errors.IdleTimeout(f"the endpoint was silent: {silence}") from error
    except httpx.TransportError as error:
        came = f"received={intake.received} bytes"
        raise errors.ConnectionLost(f"the connection was lost: {came} {error!r}") from error
