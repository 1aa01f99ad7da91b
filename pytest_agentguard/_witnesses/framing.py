"""How a plan looks in HTTP: head, framing of the body, declared length. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus

from pytest_agentguard._core.plan import End, Hold, Plan, Repeat

BODILESS = (204, 205, 304)
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """The head of one answer, and how its body is framed."""

    head: bytes
    chunked: bool
    closes: bool  # the connection ends with the answer, and the head says so

    def lead(self, size: int) -> bytes:
        """What precedes a piece of the body of ``size`` bytes."""
        return b"%x\r\n" % size if self.chunked else b""

    @property
    def trail(self) -> bytes:
        """What follows a piece of the body."""
        return b"\r\n" if self.chunked else b""

    @property
    def last(self) -> bytes:
        """What follows the whole body."""
        return LAST_CHUNK if self.chunked else b""


def without_body(plan: Plan) -> Plan:
    """The same answer with no body, for HEAD; its length stays declared, and a hold before it stays."""
    length = () if _says(plan.headers, "content-length") else (("Content-Length", str(len(plan.body))),)
    held = tuple((at, move) for at, move in plan.moves if at == 0 and isinstance(move, Hold))
    return replace(plan, headers=(*plan.headers, *length), body=b"", stop=None, moves=held, chunks=())


def fitted(plan: Plan) -> Plan:
    """The plan as its status permits: 204, 205 and 304 have no body."""
    return replace(plan, body=b"", stop=None, chunks=()) if plan.status in BODILESS else plan


def frame(plan: Plan, *, version: str, wants_close: bool, hold_limit: float | None = None) -> Frame:
    """The frame of ``plan`` for a client of this version; ``hold_limit`` replaces the limits of its holds."""
    framing = "close" if plan.framing == "chunked" and version != "1.1" else plan.framing
    length = declared_length(plan, hold_limit) if framing == "length" else 0
    return _frame(plan.status, plan.headers, framing, length, wants_close)


@lru_cache(maxsize=256)
def _frame(
    status: int, headers: tuple[tuple[str, str], ...], framing: str, length: int, wants_close: bool
) -> Frame:
    if not status:  # no answer at all
        return Frame(b"", False, True)
    bodiless = status in BODILESS
    said = bodiless or _says(headers, "transfer-encoding") or _says(headers, "content-length")
    length = 0 if bodiless else length  # 205 says so; 204 and 304 say nothing
    closes = wants_close or (framing == "close" and not said)
    lines = [f"HTTP/1.1 {status} {_reason(status)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if framing == "chunked" and not said:
        lines.append("Transfer-Encoding: chunked")
    elif (framing == "length" and not said) or (status == 205 and not _says(headers, "content-length")):
        lines.append(f"Content-Length: {length}")
    if closes:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
    return Frame(head, framing == "chunked" and not _says(headers, "content-length") and not bodiless, closes)


def declared_length(plan: Plan, hold_limit: float | None = None) -> int:
    """What ``Content-Length`` says: what will be sent, or more than that where the answer is not to end."""
    flooded = sum(move.size for position, move in reached(plan) if isinstance(move, Repeat))
    if plan.end is End.CLEAN:
        return plan.last + flooded
    dripped = sum(_dripped(move, hold_limit) for _, move in reached(plan) if isinstance(move, Hold))
    missing = 1 if plan.last == len(plan.body) else 0  # else the answer would be whole before its end
    return len(plan.body) + flooded + dripped + missing


def planned_size(plan: Plan) -> int:
    """Body bytes that leave when everything goes as planned, floods included, drips not."""
    if not plan.moves:
        return plan.last
    return plan.last + sum(move.size for _, move in reached(plan) if isinstance(move, Repeat))


def reached(plan: Plan) -> Iterator[tuple[int, object]]:
    """The moves that lie before the end of the plan."""
    return ((position, move) for position, move in plan.moves if position <= plan.last)


def _dripped(hold: Hold, hold_limit: float | None) -> int:
    if not hold.drip:
        return 0
    limit = hold.limit if hold_limit is None else hold_limit
    return (math.ceil(limit / max(hold.every, 0.001)) + 2) * len(hold.drip)


def _says(headers: tuple[tuple[str, str], ...], name: str) -> bool:
    return any(known.lower() == name for known, _ in headers)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"
