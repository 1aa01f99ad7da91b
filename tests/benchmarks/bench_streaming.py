"""Rows 9 and 10: what a long stream costs, against ``sendall``, starlette and the openai SDK."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from itertools import count
from statistics import median

from bench_requests_kept_alive import endpoint, planned
from measuring import Cost, Row, cpu, here, interleaved, thread_clock
from peers import drain, raw_server, starlette_server

from pytest_agentguard import Reply
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.exchanges import Silent, Told
from pytest_agentguard._witnesses.http_request import HttpRequest
from pytest_agentguard._witnesses.listener import Listener
from pytest_agentguard._witnesses.script import Played

_EVENTS = 40_000
_STARLETTE_EVENTS = 2_000
_SDK_EVENTS = 2_000
_ROUNDS = 9
_PATH = "/v1/chat/completions"
_LONG = Reply().text(*["word "] * _EVENTS)


class Ready:
    """A service that answers everything with one plan, made already; what happens is noted or not."""

    hold_limit: float | None = None

    def __init__(self, made: Plan, *, logged: bool) -> None:
        self._made = made
        self._logged = logged
        self.facts: list[object] = []

    def answer(self, request: HttpRequest) -> tuple[Plan, Silent | Told]:
        """The plan, and who is told."""
        if not self._logged:
            return self._made, Silent(lambda count: None)
        return self._made, Told(
            self._made,
            "s1",
            lane="",
            record=lambda kind, fields: self.facts.append((time.monotonic(), kind, fields)),
            count=lambda size: None,
            played=Played(lambda played: None),
            completed=lambda: None,
            hold_limit=None,
        )

    def refused(self, why: str) -> None:
        """There is none."""

    def crowded(self) -> None:
        """There is none."""

    def failed(self, error: BaseException) -> None:
        """Nothing may break."""
        raise error


def rows() -> Iterator[Row]:
    """Ready bytes, frame by frame, scripted anew, and beside a real client."""
    engine = Engine()
    try:
        yield from _shares(engine)
        yield _beside_sdk(engine)
    finally:
        engine.stop()


# -- row 9 ----------------------------------------------------------------------------------------


def _shares(engine: Engine) -> Iterator[Row]:
    whole, split = planned(_LONG), planned(_LONG.split(by="event"))
    done = b"[DONE]\n\n"
    with raw_server(whole.body) as raw, endpoint(engine) as server:
        services = Ready(whole, logged=False), Ready(split, logged=True)
        listeners = [Listener(engine, service) for service in services]
        server.play(_LONG.split(by="event").times(100))

        def ours(port: int, path: str = _PATH) -> Cost:
            return here(lambda: (drain(port, path), engine.run(lambda: None)))

        def anew() -> Cost:
            server.play(_LONG.split(by="event").named(f"reply {next(numbers)}"), lane="anew")
            return ours(server.port, f"/lane/anew{_PATH}")

        numbers = count()
        costs = interleaved(
            {
                "sendall": lambda: here(lambda: drain(raw.port, _PATH, last=done)),
                "ready": lambda: ours(listeners[0].port),
                "framed": lambda: ours(listeners[1].port),
                "scripted": lambda: ours(server.port),
                "anew": anew,
            },
            rounds=_ROUNDS,
        )
        for listener in listeners:
            listener.close()
    each = {name: cpu(found) / _EVENTS for name, found in costs.items()}
    yield _share(each, "ready", "ready frames, in one piece: events a second, CPU of server and client", 0.9)
    yield _share(each, "framed", "scripted and logged, an HTTP chunk for each event, encoded already", 0.08)
    first = f"; a reply that was never planned before {each['anew'] * 1e6:.2f} µs"
    yield _share(each, "scripted", "the same, scripted, with ids of its own for each request", 0.08, first)
    yield _beside_starlette(each["framed"])


def _share(each: dict[str, float], name: str, what: str, budget: float, more: str = "") -> Row:
    return Row(
        number="9",
        what=what,
        against="one sendall of the same bytes",
        budget=budget,
        value=each["sendall"] / each[name],
        at_least=True,
        detail=f"{each[name] * 1e6:.2f} µs an event, sendall {each['sendall'] * 1e6:.2f} µs{more}",
    )


def _beside_starlette(ours: float) -> Row:
    frame = {
        "number": "9",
        "what": "the same, events a second of CPU",
        "against": "starlette under uvicorn, in Python",
    }
    frame |= {"budget": 4.0, "at_least": True}
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        return Row(**frame, value=None, detail="not installed")
    whole = planned(Reply().text(*["word "] * _STARLETTE_EVENTS)).body
    events = [event + b"\n\n" for event in whole.split(b"\n\n")[:-1]]
    with starlette_server(events) as port, starlette_server(events, compiled=True) as fast:
        for one in (port, fast):
            assert drain(one, _PATH) == len(events)
        asked = {"plain": partial(drain, port, _PATH), "compiled": partial(drain, fast, _PATH)}
        costs = interleaved({name: partial(here, one) for name, one in asked.items()}, rounds=7)
    theirs, compiled = (cpu(costs[name]) / len(events) for name in ("plain", "compiled"))
    return Row(
        **frame,
        value=theirs / ours,
        detail=f"{ours * 1e6:.2f} µs an event, starlette {theirs * 1e6:.1f} µs; "
        f"{compiled * 1e6:.1f} µs with uvloop and httptools, where they are installed",
    )


# -- row 10 ---------------------------------------------------------------------------------------


def _beside_sdk(engine: Engine) -> Row:
    frame = {"number": "10", "what": "CPU of the server, planning included", "budget": 0.05}
    if find_spec("openai") is None:
        return Row(**frame, against="openai SDK", value=None, detail="not installed")
    import openai

    asked = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}
    found = []
    with endpoint(engine) as server:
        server.play(Reply().text(*["word "] * _SDK_EVENTS).times(100))
        clock = thread_clock("agentguard-engine")
        with openai.OpenAI(base_url=server.base_url("openai-chat"), api_key="k") as client:
            for _ in range(6):
                spent, begun = clock(), time.thread_time()
                count = sum(1 for _ in client.chat.completions.create(**asked))
                assert count >= _SDK_EVENTS
                engine.run(lambda: None)
                found.append((clock() - spent, time.thread_time() - begun))
    ours, sdk = (median(taken[n] for taken in found[1:]) for n in (0, 1))
    return Row(
        **frame,
        against=f"openai {openai.__version__} reading the same stream",
        value=ours / sdk,
        detail=f"{ours / _SDK_EVENTS * 1e6:.1f} µs an event, SDK {sdk / _SDK_EVENTS * 1e6:.1f} µs",
    )
