"""The engine's thread: deadlines, calls from outside, errors, its end."""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
import time

import pytest
from endpoint_kit import LIMIT, ask, serving

from pytest_agentguard import AgentguardError, Ledger, LimitReached, Reply
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import READ, Engine
from pytest_agentguard.events import WitnessFailed


class Listens:
    """A handler that keeps what happened to it."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.happened = threading.Event()

    def ready(self, events: int) -> None:
        raise RuntimeError("cannot read")

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)
        self.happened.set()


def test_thread_starts_with_the_first_call_and_ends_with_stop() -> None:
    engine = Engine()
    assert engine._thread is None
    names: list[str] = []
    assert engine.run(lambda: names.append(threading.current_thread().name))
    assert names == ["agentguard-engine"]
    engine.stop()
    engine.stop()
    assert engine._thread is not None
    assert not engine._thread.is_alive()
    assert not engine.run(lambda: None)


def test_engine_that_was_never_used_is_stopped_too() -> None:
    engine = Engine()
    engine.stop()
    assert not engine.call(lambda: None)


def test_error_of_a_call_is_raised_where_it_was_made() -> None:
    engine = Engine()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        engine.run(fails)
    assert engine.call(fails)
    assert engine.run(lambda: None)
    engine.stop()


def test_call_that_takes_too_long_reaches_its_limit() -> None:
    engine = Engine()
    go_on = threading.Event()

    def waits() -> None:
        go_on.wait(LIMIT)

    with pytest.raises(LimitReached, match="the engine did not answer"):
        engine.run(waits, limit=0.01)
    go_on.set()
    engine.stop()


def test_deadlines_fire_in_order_and_cancelled_ones_do_not() -> None:
    engine, handler = Engine(), Listens()
    fired: list[str] = []
    done = threading.Event()

    def last() -> None:
        fired.append("last")
        done.set()

    def plan() -> None:
        engine.later(0.02, last, handler)
        engine.later(0.0, lambda: fired.append("first"), handler)
        engine.later(0.01, lambda: fired.append("cancelled"), handler).cancel()

    engine.run(plan)
    assert done.wait(LIMIT)
    assert fired == ["first", "last"]
    engine.stop()


def test_handler_that_raises_is_told_and_the_thread_lives_on() -> None:
    engine, handler = Engine(), Listens()
    near, far = socket.socketpair()
    with near, far:
        engine.run(lambda: engine.watch(near, READ, handler))
        far.send(b"x")
        assert handler.happened.wait(LIMIT)
        engine.run(lambda: engine.unwatch(near))
    assert "cannot read" in str(handler.errors[0])
    assert engine.run(lambda: None)
    engine.stop()


@pytest.mark.parametrize("seconds", [math.inf, math.nan])
def test_deadline_that_is_no_time_is_refused_and_harms_no_other(seconds: float) -> None:
    engine, handler, done = Engine(), Listens(), threading.Event()
    with pytest.raises(ValueError, match="a deadline in"):
        engine.run(lambda: engine.later(seconds, done.set, handler))
    engine.run(lambda: (engine.later(1e300, done.clear, handler), engine.later(0.0, done.set, handler))[0])
    assert done.wait(LIMIT)
    assert engine.run(lambda: None)
    engine.stop()


def test_engine_that_fails_says_so_to_every_handler_and_to_who_asks_it() -> None:
    ledger, engine = Ledger(), Engine()
    with Endpoint(ledger, {}, engine=engine) as endpoint:
        ask(endpoint, "/x")
        engine.call(lambda: sys.exit("for no reason"))
        assert engine._thread is not None
        engine._thread.join(LIMIT)
        assert endpoint.problems()[-1] == "endpoint failed: SystemExit: for no reason"
        assert ledger.of(WitnessFailed)
        with pytest.raises(AgentguardError, match="the engine has failed: SystemExit: for no reason"):
            endpoint.settle()
    engine.stop()


def test_settle_returns_when_everything_that_had_come_was_looked_at() -> None:
    engine, handler = Engine(), Listens()
    near, far = socket.socketpair()
    with near, far:
        engine.run(lambda: engine.watch(near, READ, handler))
        for n in range(1, 50):
            far.send(b"x")
            assert engine.settle()
            assert len(handler.errors) >= n
            near.recv(1)
            assert engine.settle()
        engine.run(lambda: engine.unwatch(near))
    engine.stop()
    assert not engine.settle()


def test_engine_is_quiet_only_while_nothing_is_there_to_be_done() -> None:
    engine, handler = Engine(), Listens()
    assert not engine.is_quiet()
    near, far = socket.socketpair()
    with near, far:
        engine.run(lambda: engine.watch(near, READ, handler))
        engine.settle()
        far.send(b"x")
        assert not engine.is_quiet()
        engine.run(lambda: engine.unwatch(near))
    engine.stop()
    assert not engine.is_quiet()


def test_stopped_engine_takes_no_listener() -> None:
    engine = Engine()
    engine.stop()
    with pytest.raises(AgentguardError, match="the engine has been stopped"):
        Endpoint(Ledger(), {}, engine=engine)


def test_many_endpoints_share_one_thread() -> None:
    before = threading.active_count()
    engine = Engine()
    endpoints = [Endpoint(Ledger(), {}, engine=engine) for _ in range(10)]
    assert {ask(endpoint, "/x").status for endpoint in endpoints} == {404}
    assert threading.active_count() == before + 1
    for endpoint in endpoints:
        endpoint.close()
    engine.stop()


def test_stopping_the_engine_ends_its_listeners() -> None:
    engine = Engine()
    endpoint = Endpoint(Ledger(), {}, engine=engine)
    engine.stop()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", endpoint.port), timeout=LIMIT)
    endpoint.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts file descriptors in /proc")
def test_nothing_stays_open() -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    with serving() as (endpoint, _):
        endpoint.play(Reply().text("a").times(20))
        for _ in range(20):
            ask(endpoint)
    assert open_files() == before


def test_idle_engine_uses_no_processor_time() -> None:
    with serving() as (endpoint, _):
        ask(endpoint, "/x")
        clock = endpoint._engine
        used: list[float] = []
        clock.run(lambda: used.append(time.thread_time()))
        threading.Event().wait(0.1)
        clock.run(lambda: used.append(time.thread_time()))
    assert used[1] - used[0] < 0.01
