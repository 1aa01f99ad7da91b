"""The barrier: what was sent before it comes before the stop, what is sent later comes later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from counting_kit import LIMIT, asked
from endpoint_kit import TINY, Client, request

from pytest_agentguard import Ledger, Reply
from pytest_agentguard._witnesses.counting_server import CountingServer
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard.events import (
    ClientClosed,
    ConnectionAccepted,
    HttpReceived,
    RequestReceived,
    StopRequested,
    Witness,
)


@dataclass
class Servers:
    """An endpoint and a counting server that are read together."""

    endpoint: Endpoint
    counting: CountingServer
    ledger: Ledger
    engine: Engine

    @property
    def stops(self) -> tuple[StopRequested, ...]:
        return self.ledger.of(StopRequested)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The servers' thread does nothing meanwhile, so that all that is sent piles up."""
        free, holding = threading.Event(), threading.Event()
        self.engine.call(lambda: (holding.set(), free.wait(LIMIT))[0])
        assert holding.wait(LIMIT)
        try:
            yield
        finally:
            free.set()


@contextmanager
def serving_both(*, engines: int = 1) -> Iterator[Servers]:
    """Both servers, on one engine or on one each."""
    ledger = Ledger(clock=time.monotonic)
    made = [Engine() for _ in range(engines)]
    try:
        with (
            Endpoint(ledger, {"tiny": TINY}, engine=made[0]) as endpoint,
            CountingServer(ledger, engine=made[-1]) as counting,
        ):
            endpoint.barrier_with(counting)
            yield Servers(endpoint, counting, ledger, made[0])
    finally:
        for engine in made:
            engine.stop()


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def port_of(url: str) -> int:
    return int(url.split("/")[2].rpartition(":")[2])


@dataclass
class Place:
    """Something with a port."""

    port: int


def ask_barrier(url: str) -> None:
    with Client(Place(port_of(url))) as client:  # type: ignore[arg-type]
        assert client.send(asked(path_of(url))).answer().status == 204


@pytest.mark.parametrize("asks", ["endpoint", "counting"])
def test_what_was_sent_before_the_barrier_comes_before_the_stop_and_the_rest_after(asks: str) -> None:
    with serving_both() as servers, ExitStack() as open_:
        counting, endpoint = servers.counting, servers.endpoint
        counting.route("/x")
        counting.other_origin.route("/x")
        endpoint.play(Reply().text("fine").times(200))
        url = (endpoint if asks == "endpoint" else counting).barrier_url("a")
        barrier = open_.enter_context(Client(Place(port_of(url))))  # type: ignore[arg-type]
        servers.engine.settle()  # it is accepted: its request is looked at before new connections are
        with servers.busy():
            for _ in range(25):
                open_.enter_context(Client(endpoint)).send(request())
                open_.enter_context(Client(endpoint)).send(request())
                open_.enter_context(Client(counting)).send(asked("/x"))
                open_.enter_context(Client(counting.other_origin)).send(asked("/x"))
            barrier.send(asked(f"{path_of(url)}&by=cancel&at=request&again=0"))
        assert barrier.answer().status == 204
        for _ in range(5):
            open_.enter_context(Client(endpoint)).post().answer()
            open_.enter_context(Client(counting)).send(asked("/x")).answer()
        (stop,) = servers.stops
        before = servers.ledger.before(stop, RequestReceived), servers.ledger.before(stop, HttpReceived)
        after = servers.ledger.after(stop, RequestReceived), servers.ledger.after(stop, HttpReceived)
    assert [len(facts) for facts in before] == [50, 50]
    assert [len(facts) for facts in after] == [5, 5]


@pytest.mark.parametrize("asks", ["endpoint", "counting"])
def test_servers_on_two_engines_are_read_together_too(asks: str) -> None:
    with serving_both(engines=2) as servers, Client(servers.endpoint) as one, Client(servers.counting) as two:
        servers.counting.route("/x")
        servers.endpoint.play(Reply().text("fine"))
        one.post()
        two.send(asked("/x"))
        ask_barrier(getattr(servers, asks).barrier_url())
        (stop,) = servers.stops
        facts = [servers.ledger.before(stop, kind) for kind in (RequestReceived, HttpReceived)]
    assert [len(found) for found in facts] == [1, 1]


def test_a_body_of_many_pieces_that_was_sent_before_is_read_to_its_end() -> None:
    size = 1_000_000
    with serving_both() as servers, Client(servers.counting) as client:
        servers.counting.route("/x")
        url = servers.counting.barrier_url()
        with servers.busy():
            sending = threading.Thread(
                target=client.send,
                args=(asked("/x", f"Content-Length: {size}", method="POST") + b"a" * size,),
            )
            sending.start()
            sending.join(LIMIT)
            assert not sending.is_alive()
        ask_barrier(url)
        (stop,) = servers.stops
        assert [fact.body_bytes for fact in servers.ledger.before(stop, HttpReceived)] == [size]


def test_a_client_that_left_before_the_barrier_is_recorded_before_the_stop() -> None:
    with serving_both() as servers:
        held = servers.counting.route("/x", hold=True)
        url = servers.endpoint.barrier_url()
        client = Client(servers.counting).send(asked("/x"))
        assert held.arrived.wait(LIMIT)
        with servers.busy():
            client.socket.close()
        ask_barrier(url)
        (stop,) = servers.stops
        assert len(servers.ledger.before(stop, ClientClosed)) == 1


def test_the_stop_says_what_the_barrier_was_asked_with() -> None:
    with serving_both() as servers:
        ask_barrier(servers.endpoint.barrier_url("job/1") + "&by=deadline&at=body&again=1")
        ask_barrier(servers.counting.barrier_url())
        said = [(stop.witness, stop.lane, stop.by, stop.at, stop.again) for stop in servers.stops]
    assert said == [
        (Witness.RUNNER, "job/1", "deadline", "body", True),
        (Witness.RUNNER, "", "cancel", "", False),
    ]


def test_the_barrier_is_no_request_of_the_agent() -> None:
    with serving_both() as servers:
        servers.counting.forbid()
        for server in (servers.endpoint, servers.counting):
            ask_barrier(server.barrier_url())
        kinds = (RequestReceived, HttpReceived, ConnectionAccepted)
        assert [servers.ledger.of(kind) for kind in kinds] == [(), (), ()]
        assert servers.endpoint.problems() + servers.counting.problems() == []


@pytest.mark.parametrize("asks", ["endpoint", "counting", "gate"])
@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("GET", lambda path: path.rpartition("/")[0]),  # no token
        ("GET", lambda path: path.replace("barrier/", "barrier/x")),  # another
        ("GET", lambda path: path.replace("?", "/take?")),  # below it
        ("POST", lambda path: path),
    ],
)
def test_whoever_does_not_know_the_barrier_makes_a_request(
    asks: str, method: str, change: Callable[[str], str]
) -> None:
    with serving_both() as servers:
        counting, endpoint = servers.counting, servers.endpoint
        url = (endpoint if asks == "endpoint" else counting).barrier_url()
        place = {"endpoint": endpoint, "counting": counting, "gate": Place(port_of(url))}[asks]
        with Client(place) as client:  # type: ignore[arg-type]
            assert client.send(asked(change(path_of(url)), method=method)).answer().status == 404
        servers.engine.settle()
        assert servers.stops == ()
        seen = servers.ledger.of(RequestReceived) + servers.ledger.of(HttpReceived)
        assert [fact.method for fact in seen] == [method]


def test_the_barrier_of_the_counting_server_is_at_its_own_port_alone() -> None:
    with serving_both() as servers, Client(servers.counting) as client:
        path = path_of(servers.counting.barrier_url())
        assert client.send(asked(path)).answer().status == 404
        assert (servers.stops, servers.counting.received) == ((), 1)


def test_two_barriers_at_once_both_answer() -> None:
    with serving_both() as servers:
        urls = [servers.endpoint.barrier_url(), servers.counting.barrier_url()] * 2
        with ExitStack() as open_:
            clients = [open_.enter_context(Client(Place(port_of(url)))) for url in urls]  # type: ignore[arg-type]
            servers.engine.settle()
            with servers.busy():
                for client, url in zip(clients, urls, strict=True):
                    client.send(asked(path_of(url)))
            assert [client.answer().status for client in clients] == [204] * 4
        assert len(servers.stops) == 4
