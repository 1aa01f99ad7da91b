"""A reply is data: what the model says, and what goes wrong with it. Every method gives a new reply.

``Reply().text("Let me look").call("record", x="{nonce}").cut()`` says nothing about a provider;
``_core/planning.py`` turns it into a plan once the request has shown the dialect and the mode. The text
``{nonce}`` in text and arguments is replaced by a value that is new in every response, which is how a tool
call is joined to its offer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pytest_agentguard._core import limits
from pytest_agentguard._core.errors import UsageError, look_at_seconds, unknown_name
from pytest_agentguard._core.plan import End, Hold, Move, Pause
from pytest_agentguard._core.script import (
    BEFORE_FINISH,
    CHALLENGE,
    END,
    NONCE,
    PAGE,
    START,
    Flood,
    Http,
    Insert,
    Split,
    Where,
    at_byte,
    kind_of,
    look_at_error,
    look_at_fault,
)
from pytest_agentguard._core.turn import FINISHES, Part, Text, ToolCall, Turn

_NO_TURN = Turn()
_ALL_AT_ONCE = Split()


@dataclass(frozen=True, slots=True)
class Reply:
    """What the endpoint answers to one request: a turn of the model, and what goes wrong with it."""

    turn: Turn = _NO_TURN
    http: Http | None = None
    headers: tuple[tuple[str, str], ...] = ()
    stop_at: Where | None = None
    end: End = End.CLEAN
    framing: str = ""  # empty: chunked for streams, length for whole bodies
    moves: tuple[tuple[Where, Move], ...] = ()
    inserts: tuple[Insert, ...] = ()
    flooded: Flood | None = None
    chunks: Split = _ALL_AT_ONCE
    newline: str = "\n"
    content_type: str = ""
    bom: bool = False
    fault: str = ""
    label: str = ""
    is_optional: bool = False
    count: int = 1
    dialect: str = ""
    matches: Callable[[Any], bool] | None = None

    # -- what the model says ------------------------------------------------------------------------

    def text(self, *fragments: str) -> Reply:
        """Add text; several arguments are several deltas, one is cut into words."""
        if not fragments or not all(isinstance(f, str) for f in fragments):
            raise UsageError("Reply.text() takes one or more strings")
        pieces = fragments if len(fragments) > 1 else tuple(_words(fragments[0]))
        return self._with(Text(pieces))

    def call(
        self,
        tool: Any,
        /,
        *,
        raw: str | tuple[str, ...] | None = None,
        id: str | None = "",
        problem: str = "",
        **arguments: Any,
    ) -> Reply:
        """Add a call of ``tool`` (a tool spy or a name) with ``arguments``.

        ``raw`` gives the arguments as text instead, or as the fragments of it, and may be anything. ``id`` is
        the id on the wire: empty for a new one in each response, None to leave it out.
        """
        name = (
            tool if isinstance(tool, str) else getattr(tool, "name", None) or getattr(tool, "__name__", None)
        )
        if not isinstance(name, str) or not name:
            raise UsageError(f"Reply.call() takes a tool spy or a tool's name, not {tool!r}")
        if raw is not None and arguments:
            raise UsageError("Reply.call() takes either raw= or arguments, not both")
        fragments = (
            raw if isinstance(raw, tuple) else tuple(_thirds(_json(arguments) if raw is None else raw))
        )
        key = f"c{len(self.turn.calls) + 1}"
        return self._with(ToolCall(name, fragments, id, problem, key))

    def finish(self, reason: str) -> Reply:
        """Say why the model stopped: one of ``stop, tool_calls, length, filter, refusal, unknown``.

        ``missing`` sends the markers without a reason, so that the reply is never complete.
        """
        if reason not in FINISHES:
            raise unknown_name("finish reason", reason, FINISHES)
        return replace(
            self,
            turn=replace(self.turn, finish=reason),
            fault="missing-finish" if reason == "missing" else self.fault,
        )

    def usage(self) -> Reply:
        """Report token usage the way the dialect does."""
        return replace(self, turn=replace(self.turn, usage=True))

    def interleave(self, *indices: int) -> Reply:
        """Alternate the fragments of the calls; ``indices`` are their wire indices where not 0, 1, 2 …"""
        return replace(self, turn=replace(self.turn, interleaved=True, indices=indices))

    # -- how it ends (wire facts §2) ------------------------------------------------------------------

    def cut(
        self, at: Where | int | str | None = None, *, inside: str | None = None, framing: str = ""
    ) -> Reply:
        """End the body cleanly before it is complete (E2; with ``framing="close"`` E3).

        ``at`` is a position or a number of bytes; ``inside`` names an argument of the first call and cuts in
        the middle of its value. The default stops before the first byte of the finish event.
        """
        return self._ending(End.CLEAN, at, inside, "cut", framing)

    def protocol_cut(self, at: Where | int | str | None = None, *, inside: str | None = None) -> Reply:
        """End against the protocol (E4): no last chunk, or fewer bytes than the length said."""
        return self._ending(End.CUT, at, inside, "protocol-cut", "")

    def reset(self, at: Where | int | str | None = None, *, inside: str | None = None) -> Reply:
        """Reset the connection (E5) after the bytes before it have left."""
        return self._ending(End.RESET, at, inside, "reset", "")

    def stall(
        self,
        at: Where | int | str | None = None,
        *,
        inside: str | None = None,
        limit: float = limits.HOLD_SECONDS,
    ) -> Reply:
        """Stop sending and keep the connection (E6) until released, for ``limit`` seconds at most."""
        look_at_seconds("Reply.stall(limit=…)", limit)
        return self._ending(End.STALLED, at, inside, "stall", "", Hold("stall", limit))

    def drip(
        self,
        at: Where | int | str | None = None,
        *,
        every: float = 0.05,
        limit: float = limits.DRIP_SECONDS,
        data: bytes = b"",
    ) -> Reply:
        """Send a keep-alive (or ``data``) every ``every`` seconds, and never the rest (E7)."""
        look_at_seconds("Reply.drip(limit=…)", limit)
        look_at_seconds("Reply.drip(every=…)", every)
        hold = Hold("drip", limit, "drip", data or b"\0", every)
        return self._ending(End.STALLED, at, None, "drip", "", hold)

    def keep_open(self, *, limit: float = limits.HOLD_SECONDS) -> Reply:
        """Send everything, the marker too, and keep the connection open (E8)."""
        look_at_seconds("Reply.keep_open(limit=…)", limit)
        moves = (*self.moves, (END, Hold("keep-open", limit, "keep-open")))
        return replace(self, moves=moves, end=End.STALLED, fault=self.fault or "keep-open")

    def hold(self, at: Where | None = None, *, limit: float = limits.HOLD_SECONDS) -> Reply:
        """Wait at ``at`` (default: before the first byte of the answer) until released, then go on."""
        look_at_seconds("Reply.hold(limit=…)", limit)
        return replace(self, moves=(*self.moves, (at or START, Hold("hold", limit, "hold"))))

    def pause(self, seconds: float, at: Where | int | None = None) -> Reply:
        """Send nothing for ``seconds`` at ``at``, then go on."""
        look_at_seconds("Reply.pause(…)", seconds)
        where = at_byte(at) if isinstance(at, int) else at or START
        return replace(self, moves=(*self.moves, (where, Pause(seconds))))

    # -- what goes wrong ------------------------------------------------------------------------------

    def error(
        self, kind: str = "overloaded", message: str = "", *, at: Where | int | None = None, then: str = "end"
    ) -> Reply:
        """Send an error event in mid-stream; ``then`` is ``end``, ``done`` (the marker alone) or ``rest``."""
        if then not in ("end", "done", "rest"):
            raise UsageError(f"Reply.error(then=…) takes end, done or rest, not {then!r}")
        look_at_error(kind)
        where = at_byte(at) if isinstance(at, int) else at or BEFORE_FINISH
        insert = Insert(where, "error", kind, message or f"{kind} (scripted)")
        more = (Insert(where, "done"),) if then == "done" else ()
        reply = replace(self, inserts=(*self.inserts, insert, *more), fault=self.fault or "error-event")
        return reply if then == "rest" else replace(reply, stop_at=where)

    def status(
        self, status: int, kind: str = "", message: str = "", *, retry_after: str | float | None = None
    ) -> Reply:
        """Answer with an HTTP status and the dialect's own error body."""
        look_at_error(kind or kind_of(status))
        headers = self.headers if retry_after is None else (*self.headers, ("Retry-After", f"{retry_after}"))
        http = Http(status, kind or kind_of(status), body=None, message=message)
        return replace(self, http=http, headers=headers, fault=self.fault or f"status-{status}")

    def redirect(self, url: str, status: int = 307) -> Reply:
        """Answer with a redirect to ``url``."""
        http = Http(status, "redirect", "text/plain", b"")
        return replace(self, http=http, headers=(*self.headers, ("Location", url)), fault="redirect")

    def html(self, text: str = "", *, status: int = 200) -> Reply:
        """Answer with an HTML page, as a proxy in front of a provider does."""
        http = Http(status, "html", "text/html; charset=utf-8", (text or PAGE).encode())
        return replace(self, http=http, fault="html")

    def challenge(self) -> Reply:
        """Answer with a bot challenge page and status 200."""
        http = Http(200, "challenge", "text/html; charset=utf-8", CHALLENGE.encode())
        return replace(self, http=http, fault="challenge")

    def json_error(self, kind: str = "server", message: str = "", *, status: int = 200) -> Reply:
        """Answer with the dialect's error body as JSON, with status 200 unless said otherwise."""
        look_at_error(kind)
        return replace(self, http=Http(status, kind, body=None, message=message), fault="json-error")

    def body(self, data: bytes, *, content_type: str = "application/json", status: int = 200) -> Reply:
        """Answer with exactly these bytes."""
        return replace(
            self, http=Http(status, "raw", content_type, bytes(data)), fault=self.fault or "raw-body"
        )

    def nothing(self) -> Reply:
        """Answer 200 with the right content type and not one byte of a body."""
        return replace(self, stop_at=START, fault="nothing")

    def only_done(self) -> Reply:
        """Answer with nothing but the dialect's completion marker."""
        return replace(self, stop_at=START, inserts=(*self.inserts, Insert(START, "done")), fault="only-done")

    def flood(self, what: str, size: int) -> Reply:
        """Send ``size`` bytes of an endless ``event``, of ``keep-alive`` or ``text``, ahead of the finish."""
        if what not in ("event", "keep-alive", "text"):
            raise UsageError(f"Reply.flood() takes event, keep-alive or text, not {what!r}")
        if size < 1:
            raise UsageError(f"Reply.flood() takes a size from 1, not {size}")
        return replace(self, flooded=Flood(what, size), fault=f"flood-{what}")

    # -- how it looks on the wire ---------------------------------------------------------------------

    def keep_alive(self, at: Where | int | None = None, *, count: int = 1) -> Reply:
        """Send ``count`` keep-alives of the dialect at ``at``."""
        where = at_byte(at) if isinstance(at, int) else at or START
        return replace(self, inserts=(*self.inserts, Insert(where, "keep-alive", count=count)))

    def split(self, *, each: int = 0, at: tuple[int, ...] = (), by: str = "") -> Reply:
        """Choose where HTTP chunks begin: every ``each`` bytes, ``at`` offsets, or ``by`` a kind of place."""
        if by not in ("", "event", "utf-8", "newline"):
            raise UsageError(f"Reply.split(by=…) takes event, utf-8 or newline, not {by!r}")
        if each < 0:
            raise UsageError(f"Reply.split() takes a size from 0, not {each}")
        return replace(self, chunks=Split(each, tuple(at), by))

    def newlines(self, newline: str) -> Reply:
        r"""End lines of the stream with ``\n``, ``\r\n`` or ``\r``."""
        if newline not in ("\n", "\r\n", "\r"):
            raise UsageError("Reply.newlines() takes LF, CRLF or CR")
        return replace(self, newline=newline)

    def framed(self, framing: str) -> Reply:
        """Frame the body as ``chunked``, by ``length``, or by ``close``."""
        if framing not in ("chunked", "length", "close"):
            raise UsageError(f"Reply.framed() takes chunked, length or close, not {framing!r}")
        return replace(self, framing=framing)

    def typed(self, content_type: str) -> Reply:
        """Say another content type than the dialect's."""
        return replace(self, content_type=content_type, fault=self.fault or "content-type")

    def header(self, name: str, value: str) -> Reply:
        """Add a response header."""
        return replace(self, headers=(*self.headers, (name, f"{value}")))

    # -- how it is matched ----------------------------------------------------------------------------

    def optional(self) -> Reply:
        """Do not fail the test when nobody requests it."""
        return replace(self, is_optional=True)

    def times(self, count: int) -> Reply:
        """Serve it ``count`` times."""
        if count < 1:
            raise UsageError(f"Reply.times() takes a count from 1, not {count}")
        return replace(self, count=count)

    def named(self, label: str, fault: str = "") -> Reply:
        """Name the reply for people, and its kind of fault (see the list of kinds) for rules."""
        look_at_fault(fault)
        return replace(self, label=label, fault=fault or self.fault)

    def on(self, dialect: str = "", matches: Callable[[Any], bool] | None = None) -> Reply:
        """Serve it only to requests of ``dialect``, or to those for which ``matches(request)`` is true."""
        return replace(self, dialect=dialect, matches=matches)

    # -- inside ---------------------------------------------------------------------------------------

    def _with(self, part: Part) -> Reply:
        finish = (
            "tool_calls" if isinstance(part, ToolCall) and self.turn.finish == "stop" else self.turn.finish
        )
        return replace(self, turn=replace(self.turn, parts=(*self.turn.parts, part), finish=finish))

    def _ending(
        self,
        end: End,
        at: Where | int | str | None,
        inside: str | None,
        fault: str,
        framing: str,
        move: Move | None = None,
    ) -> Reply:
        reply = self
        if inside is not None:
            reply, where = _inside(self, inside)
        elif isinstance(at, str):
            where = Where(at)
        elif isinstance(at, int):
            where = at_byte(at)
        else:
            where = at or BEFORE_FINISH
        moves = reply.moves if move is None else (*reply.moves, (where, move))
        return replace(
            reply,
            end=end,
            stop_at=where,
            moves=moves,
            framing=framing or reply.framing,
            fault=reply.fault or fault,
        )


def _inside(reply: Reply, name: str) -> tuple[Reply, Where]:
    """The reply with a fragment boundary in the middle of the value of ``name``, and that position."""
    for n, part in enumerate(reply.turn.parts):
        middle = _middle(part.arguments, name) if isinstance(part, ToolCall) else None
        if middle is None:
            continue
        fragments = ("".join(part.fragments)[:middle], "".join(part.fragments)[middle:])
        parts = list(reply.turn.parts)
        parts[n] = replace(part, fragments=fragments)
        where = Where("piece", part=n, fragment=0)
        return replace(reply, turn=replace(reply.turn, parts=tuple(parts))), where
    raise UsageError(f"no call of this reply has an argument named {name!r}")


def _middle(raw: str, name: str) -> int | None:
    """The middle of the value of ``name``; behind a nonce in it, so that the cut call can be joined."""
    key = re.search(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:\s*", raw)
    if key is None:
        return None
    begin = key.end()
    try:
        _, stop = json.JSONDecoder().raw_decode(raw, begin)
    except ValueError:
        stop = len(raw)
    nonce = raw.find(NONCE, begin, stop)
    middle = (begin + 1 + stop) // 2
    return middle if nonce < 0 else max(middle, nonce + len(NONCE))


def _json(arguments: dict[str, Any]) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"Reply.call() takes arguments that JSON can hold: {problem}") from None


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:] if len(words) <= 8 else [text[:20], text[20:]]


def _thirds(text: str) -> list[str]:
    """About three pieces of ``text``; none of them ends inside a nonce."""
    size = max(1, -(-len(text) // 3))
    pieces: list[str] = []
    begin = 0
    while begin < len(text):
        stop = begin + size
        nonce = text.rfind(NONCE, begin, stop + len(NONCE) - 1)
        if nonce >= 0:
            stop = max(stop, nonce + len(NONCE))
        pieces.append(text[begin:stop])
        begin = stop
    return pieces or [""]
