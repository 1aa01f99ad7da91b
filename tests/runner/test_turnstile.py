"""Heavy runs never go beside light ones, whoever comes first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_agentguard._runner.turnstile import Turnstile

SECONDS = 10


class Seen:
    """How many of each sort were inside at once, at most and together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = {True: 0, False: 0}
        self.most = {True: 0, False: 0}
        self.mixed = 0

    def go(self, turnstile: Turnstile, heavy: bool, together: threading.Barrier | None = None) -> None:
        with turnstile.pass_through(heavy):
            with self.lock:
                self.inside[heavy] += 1
                self.most[heavy] = max(self.most[heavy], self.inside[heavy])
                self.mixed += bool(self.inside[True] and self.inside[False])
            if together is not None:
                together.wait(SECONDS)
            with self.lock:
                self.inside[heavy] -= 1


def test_light_runs_go_side_by_side() -> None:
    turnstile, seen, together = Turnstile(), Seen(), threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(seen.go, turnstile, False, together) for _ in range(4)]:
            done.result(SECONDS)
    assert seen.most[False] == 4


@pytest.mark.parametrize("at_once", [1, 2])
def test_heavy_runs_go_so_many_at_a_time_and_beside_no_light_one(at_once: int) -> None:
    turnstile, seen = Turnstile(at_once), Seen()
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(seen.go, turnstile, n % 3 == 0) for n in range(300)]:
            done.result(SECONDS)
    assert seen.mixed == 0
    assert seen.most[True] <= at_once


def test_heavy_run_waits_for_the_light_one_that_is_inside() -> None:
    turnstile, order = Turnstile(), []
    entered, leave = threading.Event(), threading.Event()

    def light() -> None:
        with turnstile.pass_through(False):
            entered.set()
            leave.wait(SECONDS)
            order.append("light")

    def heavy() -> None:
        with turnstile.pass_through(True):
            order.append("heavy")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(light)
        assert entered.wait(SECONDS)
        second = pool.submit(heavy)
        leave.set()
        first.result(SECONDS)
        second.result(SECONDS)
    assert order == ["light", "heavy"]


def test_turn_is_given_back_after_an_error() -> None:
    turnstile = Turnstile()
    with pytest.raises(ValueError, match="inside"), turnstile.pass_through(True):
        raise ValueError("inside")
    with turnstile.pass_through(False):
        pass
