"""Sweeps over one chat reply, a lane for each offset: cut after every byte or event, split at every byte."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agentguard import END, Lane, Reply, Scenario, Setup, after_event, at_byte
from pytest_agentguard.scenarios._replies import answer, recovery

_INCOMPLETE = ("no-tool-on-incomplete-stream", "no-success-on-incomplete-stream")
_SAME = ("same-answer-at-any-split", "tool-runs-once")
_SECONDS = 180.0
_SPLITS = 4  # in one body, far from one another
_STRIDE = 7  # bytes between two offsets in a body that is not streamed: any of them leaves broken JSON

_OFFSETS = 1_000  # bytes before the finish event, at least
_MIXED = "{nonce}: 漢字 👩‍💻 \u2028"


def _long_call(setup: Setup) -> Reply:
    """A call whose stream has a thousand bytes before the finish event, or a few more, in every dialect."""
    for count in range(1, _OFFSETS):
        half = ("evidence-" * count)[: 9 * count // 2]
        reply = Reply().call("record", raw=('{"x": "{nonce}-' + half, half + '", "y": "done"}'))
        if setup.mode == "block" or _mark(setup, reply, "finish-starts") >= _OFFSETS:
            return reply
    raise AssertionError("a longer argument makes a longer stream")


def _mixed_call() -> Reply:
    return Reply().call("record", raw=('{"x": "' + _MIXED + '"', "}"))


def _mark(setup: Setup, reply: Reply, what: str) -> int:
    return next(mark.at for mark in setup.measure(reply).marks if mark.what == what)


def _events(setup: Setup, reply: Reply) -> int:
    """How many whole events leave before the finish event."""
    marks = setup.measure(reply).marks
    finish = next(mark.at for mark in marks if mark.what == "finish-starts")
    return sum(mark.what == "event" and mark.at <= finish for mark in marks)


def _offsets(setup: Setup, first: int, stop: int) -> range:
    """Every byte of a stream, some of a whole body."""
    return range(first, stop, 1 if setup.mode == "stream" else _STRIDE)


def _cut_lanes(setup: Setup) -> Iterator[Lane]:
    reply = _long_call(setup)
    for n in _offsets(setup, 0, _mark(setup, reply, "finish-starts") + 1):
        label = f"byte-{n:04}"
        yield Lane(label, [reply.cut(at_byte(n)).named(f"cut after {n} bytes"), recovery(setup)])


def _event_lanes(setup: Setup) -> Iterator[Lane]:
    reply = _long_call(setup)
    for n in range(_events(setup, reply) + 1):
        at = after_event(n)
        endings = {
            "cut": reply.cut(at),
            "close": reply.cut(at, framing="close"),
            "break": reply.protocol_cut(at),
            "reset": reply.reset(at),
        }
        for name, ended in endings.items():
            yield Lane(f"{name}-{n:02}", [ended.named(f"{name} after {n} events"), recovery(setup)])


def _strict_lanes(setup: Setup) -> Iterator[Lane]:
    reply = _long_call(setup)
    first, marker = (_mark(setup, reply, what) for what in ("finish-starts", "marker"))
    for n in range(first + 1, marker):
        yield Lane(f"byte-{n:04}", [reply.cut(at_byte(n)).named(f"cut after {n} bytes"), recovery(setup)])


def _split_lanes(setup: Setup) -> Iterator[Lane]:
    """Each lane splits at four bytes, a quarter of a body apart: at each a reader has forgotten the last."""
    reply = _mixed_call()
    size = len(setup.measure(reply).body)
    apart = -(-size // _SPLITS)
    for n in _offsets(setup, 0, apart):
        at = tuple(range(n, size, apart))
        label = "-".join(("split", *(f"{byte:04}" for byte in at)))
        yield Lane(label, [reply.split(at=at).named(f"split at {', '.join(map(str, at))}"), answer(setup)])


def _shapes(setup: Setup) -> Iterator[tuple[str, Reply]]:
    reply = _mixed_call()
    yield "as-it-comes", reply
    for size in (1, 2, 3, 7):
        yield f"every-{size}", reply.split(each=size)
    yield "inside-characters", reply.split(by="utf-8")
    yield "one-length", reply.framed("length")
    yield "until-close", reply.framed("close").split(each=5)
    if setup.mode == "stream":
        yield "crlf", reply.newlines("\r\n")
        yield "crlf-torn", reply.newlines("\r\n").split(by="newline")
        yield "crlf-every-1", reply.newlines("\r\n").split(each=1)
        yield "cr", reply.newlines("\r")
        yield "cr-every-1", reply.newlines("\r").split(each=1)
        yield "keep-alives", _kept_alive(setup, reply)
    else:
        yield "spaces-around", reply.keep_alive(count=3).keep_alive(END)


def _kept_alive(setup: Setup, reply: Reply) -> Reply:
    for n in range(_events(setup, reply) + 1):
        reply = reply.keep_alive(after_event(n))
    return reply


def _shape_lanes(setup: Setup) -> list[Lane]:
    return [Lane(name, [reply.named(name), answer(setup)]) for name, reply in _shapes(setup)]


SCENARIOS = (
    Scenario(
        id="cut-after-every-byte",
        summary="A complete reply with a call is cut after each byte up to its finish event.",
        invariants=_INCOMPLETE,
        lanes=lambda setup: list(_cut_lanes(setup)),
        heavy=True,
        seconds=_SECONDS,
        requirements=("D02",),
        hint="There is no byte before the finish event after which the call is safe to run.",
    ),
    Scenario(
        id="end-after-every-event",
        summary="A complete reply with a call ends after each of its events, in each way that there is.",
        invariants=_INCOMPLETE,
        lanes=lambda setup: list(_event_lanes(setup)),
        modes=("stream",),
        seconds=_SECONDS,
        requirements=("D02", "D07"),
        hint="A whole event is not a whole reply.",
    ),
    Scenario(
        id="cut-up-to-the-marker",
        summary="A complete reply with a call is cut after each byte from its finish event to its marker.",
        invariants=_INCOMPLETE,
        lanes=lambda setup: list(_strict_lanes(setup)),
        modes=("stream",),
        strict=True,
        heavy=True,
        seconds=_SECONDS,
        requirements=("D02",),
        hint="Only an agent that reads the stream itself can see this; the strict rules ask for it.",
    ),
    Scenario(
        id="split-at-every-byte",
        summary="A complete reply comes in chunks, split at each byte in turn.",
        invariants=_SAME,
        lanes=lambda setup: list(_split_lanes(setup)),
        heavy=True,
        seconds=_SECONDS,
        requirements=("D03",),
        hint="Where a chunk begins means nothing; what the agent makes of it may not depend on it.",
    ),
    Scenario(
        id="any-shape-on-the-wire",
        summary="A complete reply comes byte by byte, with torn characters, other line ends, keep-alives.",
        invariants=_SAME,
        lanes=_shape_lanes,
        requirements=("D03",),
        hint="All of these are the same reply.",
    ),
)
