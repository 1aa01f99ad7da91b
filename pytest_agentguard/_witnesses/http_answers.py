"""From a route of the counting server to the plan of an answer; what a route may be. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import UsageError, look_at_seconds, unknown_name
from pytest_agentguard._core.plan import End, Hold, Note, Plan, Repeat
from pytest_agentguard._core.scenario import ROUTES, Route
from pytest_agentguard._witnesses.framing import BODILESS, fitted

ANY = "*"  # at the end of a path: whatever follows
REDIRECTS = (301, 302, 303, 307, 308)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")  # what no line of a head can carry
_SURROGATE = re.compile("[\ud800-\udfff]")
_FILLER = b"x" * 65536
_OVERSIZE = 10 * 1024 * 1024  # bytes, where no size is given


def checked(route: Route) -> Route:
    """The route with its defaults filled in. Raises ``UsageError`` for one that cannot be."""
    if route.does not in ROUTES:
        raise unknown_name("behaviour of a route", route.does, ROUTES)
    _look_at_types(route)
    if not (route.path.startswith("/") or route.path == ANY) or {"?", "#"} & {*route.path}:
        raise UsageError(f"a route has a path from / on, without a query, not {route.path!r}")
    look_at_seconds(f"route {route.path}: seconds", route.seconds)
    if route.does in ("partial", "hold") and route.size > limits.BODY_BYTES:
        raise UsageError(f"route {route.path}: a body of over {limits.BODY_BYTES} bytes is for oversize=")
    if route.times < 0 or route.size < 0:
        raise UsageError(f"route {route.path}: times and sizes are 0 or more")
    if route.does == "redirect":
        route = replace(route, status=route.status if route.status in REDIRECTS else 302)
        if not route.to:
            raise UsageError(f"route {route.path} redirects and does not say where to")
    if not 200 <= route.status <= 599:
        raise UsageError(f"route {route.path}: a status is 200 to 599, not {route.status}")
    if route.does == "hold" and route.size and route.status in BODILESS:
        raise UsageError(f"route {route.path} is held in its body; a status {route.status} has none")
    if route.does == "fail" and route.status < 400:
        raise UsageError(f"route {route.path} fails with a status from 400, not {route.status}")
    then = None if route.then is None else checked(replace(route.then, path=route.path))
    return replace(route, then=then)


def _look_at_types(route: Route) -> None:
    """Raise ``UsageError`` for what would fail only once a client asks for it."""
    for name in ("status", "size", "times"):
        if type(number := getattr(route, name)) is not int:
            raise UsageError(f"route {route.path}: {name} is a whole number, not {number!r}")
    for name in ("path", "to", "retry_after"):
        text = getattr(route, name)
        if not isinstance(text, str) or _CONTROL.search(text):
            raise UsageError(f"route {route.path!r}: {name} is text in one line, not {text!r}")
    for header in (route.to, route.retry_after):
        if not _is_latin(header):
            raise UsageError(f"route {route.path}: a header is Latin-1, which {header!r} is not; see quote()")
    if not isinstance(route.body, str) or _SURROGATE.search(route.body):
        raise UsageError(f"route {route.path}: a body is text that UTF-8 can hold, not {route.body!r:.80}")
    if not isinstance(route.then, Route | None):
        raise UsageError(f"route {route.path}: then= takes a Route, not {route.then!r}")
    try:
        urlsplit(route.to)
    except ValueError as problem:
        raise UsageError(f"route {route.path} redirects to {route.to!r}: {problem}") from None


def _is_latin(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def route_of(
    path: str,
    *,
    status: int = 200,
    redirect: str = "",
    drop: bool = False,
    slow: float = 0.0,
    hold: bool = False,
    limit: float = 0.0,
    oversize: int = 0,
    endless: bool = False,
    partial: int = 0,
    body: Any = "ok {nonce}",
    **options: Any,
) -> Route:
    """The route that a test asks for in words; ``options`` are those of ``Route``."""
    if not isinstance(status, int):
        raise UsageError(f"route {path}: status is a whole number, not {status!r}")
    asked = {
        "redirect": bool(redirect), "drop": drop, "slow": bool(slow), "hold": hold,
        "oversize": bool(oversize), "endless": endless, "partial": bool(partial) and not hold,
    }  # fmt: skip
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise UsageError(f"route {path} does one of {' and '.join(chosen)}, not several; see then=")
    if redirect and status != 200 and status not in REDIRECTS:
        raise UsageError(f"route {path}: a redirect has one of the statuses {REDIRECTS}, not {status}")
    if limit and not hold:
        raise UsageError(f"route {path}: limit= is how long an answer is held; it goes with hold=True")
    route = Route(
        path=path,
        does=chosen[0] if chosen else "fail" if status >= 400 else "ok",
        status=status,
        to=redirect,
        seconds=slow or limit,
        size=oversize or partial,
        body=body if isinstance(body, str) else _json(path, body),
        **options,
    )
    return checked(route)


def _json(path: str, body: Any) -> str:
    try:
        return json.dumps(body)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"route {path}: a body is text, or what JSON can hold: {problem}") from None


def turn_of(route: Route, nth: int) -> Route:
    """The route for its ``nth`` request, counted from 1; a healthy one where nothing else is said."""
    while route.times and nth > route.times:
        nth -= route.times
        route = route.then or Route(path=route.path, allowed=route.allowed)
    return route


def plan_of(route: Route, *, nonce: str, notes: tuple[Note, ...] = ()) -> Plan:
    """The plan of one answer."""
    if route.does == "drop":
        return Plan(status=0, framing="close", end=End.CUT)
    body = b"" if route.does == "redirect" else route.body.replace("{nonce}", nonce).encode()
    said = tuple((-1, note) for note in notes)
    plan = fitted(Plan(route.status, _headers(route), body, framing="length", notes=said))
    match route.does:
        case "hold":
            return _held(plan, route)
        case "slow":
            return replace(plan, moves=((0, Hold("slow", route.seconds, "hold")),))
        case "oversize":
            return replace(plan, body=b"", moves=((0, Repeat(_FILLER, route.size or _OVERSIZE)),))
        case "endless":
            flood = Repeat(_FILLER, route.size or limits.FLOOD_BYTES)
            return replace(plan, body=b"", moves=((0, flood),), framing="chunked", end=End.CUT)
        case "partial":
            return replace(plan, body=body.ljust(route.size + 1, b"."), stop=route.size, end=End.CUT)
    return plan


def _held(plan: Plan, route: Route) -> Plan:
    """Held before its first byte, or behind ``size`` bytes of a longer body, which goes on when released."""
    why = "stall" if route.size else "hold"
    hold = Hold(why, route.seconds or limits.HOLD_SECONDS, why)
    body = plan.body.ljust(route.size + 1, b".") if route.size else plan.body
    return replace(plan, body=body, moves=((route.size, hold),))


def _headers(route: Route) -> tuple[tuple[str, str], ...]:
    kind = "application/json" if _is_json(route.body) else "text/plain; charset=utf-8"
    headers = [("Location", route.to)] if route.does == "redirect" else [("Content-Type", kind)]
    return (*headers, *([("Retry-After", route.retry_after)] if route.retry_after else []))


def _is_json(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
