"""Rows 7 and 8: a listener of its own for each test, requests on one connection, and no stall anywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from urllib.parse import urlsplit

from measuring import Row, cpu, here, interleaved, percentile, wall
from peers import ask, connected, raw_server

from pytest_agentguard import Ledger, Reply, catalogue
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.framing import frame

_PATH = "/v1/chat/completions"
_STALL = 40.0  # ms: what a delayed acknowledgement costs
_REPLY = Reply().text("Let me record that.").call("record", x="evidence")
_PATTERNS = {
    "as it comes": _REPLY,
    "every byte": _REPLY.split(each=1),
    "every event": _REPLY.split(by="event"),
    "with a length": _REPLY.framed("length"),
    "split, with a length": _REPLY.framed("length").split(each=100),
    "paused": _REPLY.pause(0.001, 1).pause(0.001, 2),
    "an error": Reply().status(503),
}


def endpoint(engine: Engine) -> Endpoint:
    """An endpoint as a test has it; it serves as many requests as it gets."""
    ledger = Ledger(clock=time.monotonic, limit_events=10_000_000)
    return Endpoint(ledger, catalogue.dialects(), engine=engine, ceiling=1_000_000)


def rows() -> Iterator[Row]:
    """Listener, stop, requests, patterns."""
    engine = Engine()
    try:
        yield from _own_listener(engine)
        yield from _kept_alive(engine)
        yield _patterns(engine)
    finally:
        engine.stop()


# -- row 7 ----------------------------------------------------------------------------------------


def _own_listener(engine: Engine) -> Iterator[Row]:
    stops: list[float] = []
    answer = _models_on_the_wire()

    def own() -> None:
        server = endpoint(engine)
        _models(server.port)
        begun = time.perf_counter()
        server.close()
        stops.append(time.perf_counter() - begun)

    with raw_server(answer) as raw:
        costs = interleaved(
            {"own": lambda: here(own), "floor": lambda: here(lambda: _models(raw.port))}, rounds=200
        )
    yield Row(
        number="7",
        what="own listener per test: start, connect, one request, stop (CPU)",
        against="connect and one request to a raw blocking server",
        budget=3.0,
        value=cpu(costs["own"]) / cpu(costs["floor"]),
        detail=f"{cpu(costs['own']) * 1e6:.0f} µs, floor {cpu(costs['floor']) * 1e6:.0f} µs, "
        f"wall {wall(costs['own']) / wall(costs['floor']):.2f} ×",
    )
    yield Row(number="7", what="stop, median", against="–", budget=1.0, value=median(stops) * 1e3, unit="ms")


def _models(port: int) -> bytes:
    with closing(connected(f"http://127.0.0.1:{port}")) as client:
        client.request("GET", "/v1/models")
        return client.getresponse().read()


# -- row 8 ----------------------------------------------------------------------------------------


def _kept_alive(engine: Engine) -> Iterator[Row]:
    with endpoint(engine) as server:
        server.play(_REPLY.times(9_999))
        with (
            raw_server(_turn_on_the_wire()) as raw,
            closing(connected(server.root_url)) as ours,
            closing(connected(raw.url)) as floor,
        ):
            for n in range(600):  # replies that differ: each is planned from nothing
                server.play(_REPLY.named(f"reply {n}"), lane="anew")
            asked = {
                "ours": partial(ask, ours, _PATH),
                "anew": partial(ask, ours, f"/lane/anew{_PATH}"),
                "raw": partial(ask, floor, _PATH),
            }
            costs = interleaved({name: partial(here, one) for name, one in asked.items()}, rounds=600)
    yield Row(
        number="8",
        what="keep-alive request for a turn, p50 of the wall time",
        against="a raw blocking server that sends the same bytes and reads nothing out of the request",
        budget=1.3,
        value=wall(costs["ours"]) / wall(costs["raw"]),
        detail=f"{wall(costs['ours']) * 1e6:.0f} µs, raw {wall(costs['raw']) * 1e6:.0f} µs; "
        f"CPU {cpu(costs['ours']) / cpu(costs['raw']):.2f} ×; a reply that was never planned before "
        f"{wall(costs['anew']) * 1e6:.0f} µs",
    )


def _patterns(engine: Engine) -> Row:
    with ExitStack() as stack:
        server = stack.enter_context(endpoint(engine))
        raw = stack.enter_context(raw_server(_turn_on_the_wire()))
        actions = {"raw": partial(ask, stack.enter_context(closing(connected(raw.url))), _PATH)}
        for n, (name, reply) in enumerate(_PATTERNS.items()):
            lane = f"p{n}"
            server.play(reply.times(9_999), lane=lane)
            path = urlsplit(server.base_url("openai-chat", lane)).path + "/chat/completions"
            actions[name] = partial(ask, stack.enter_context(closing(connected(server.root_url))), path)
        costs = interleaved({name: partial(here, one) for name, one in actions.items()}, rounds=100)
    waits = {
        name: percentile([max(0.0, cost.wall - cost.cpu) * 1e3 for cost in found], 99)
        for name, found in costs.items()
    }
    machine = waits.pop("raw")
    worst = max(waits, key=lambda name: waits[name])
    return Row(
        number="8",
        what=f"no stall in any of {len(waits)} send patterns: the largest p99 of the time without CPU",
        against="a raw blocking server in the same rounds",
        budget=_STALL,
        value=waits[worst],
        unit="ms",
        detail=f"{worst}; raw {machine:.1f} ms",
    )


# -- the bytes that a raw server sends --------------------------------------------------------------


def _turn_on_the_wire() -> bytes:
    return _on_the_wire(planned(_REPLY))


def _models_on_the_wire() -> bytes:
    body = catalogue.dialects()["openai-chat"].models(["agentguard-model"])
    return _on_the_wire(Plan(200, (("Content-Type", "application/json"),), body, framing="length"))


def planned(reply: Reply) -> Plan:
    """The plan of a streamed chat reply."""
    return plan(reply, Setting(catalogue.dialects()["openai-chat"], "stream", CountedIds("benchmark")))


def _on_the_wire(made: Plan) -> bytes:
    framed = frame(made, version="1.1", wants_close=False)
    return framed.head + framed.lead(len(made.body)) + made.body + framed.trail + framed.last
