"""One response on its way in: bounded, checked at every step, and a turn only when it is complete. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_agentguard.reference import errors
from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.sse import Decoder
from pytest_agentguard.reference.strict_json import NotJson, parse_loosely
from pytest_agentguard.reference.turns import Calls, Turn
from pytest_agentguard.reference.wire import Dialect, error_in, provider_error

EVENT_STREAM, JSON = "text/event-stream", "application/json"


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a response says."""

    status: int
    content_type: str = ""
    encoding: str = ""
    location: str = ""
    retry_after: float | None = None  # s

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.content_type.partition(";")[0].strip().lower()


class Intake:
    """``begin`` with the head, ``feed`` every chunk until it says that it is over, then ``end``."""

    def __init__(
        self,
        dialect: Dialect,
        mode: str,
        bounds: Bounds,
        *,
        decoder: Callable[..., Decoder] = Decoder,
        calls: Callable[[], Calls] = Calls,
    ) -> None:
        self.dialect, self.mode, self.bounds = dialect, mode, bounds
        self.calls = calls()
        self.decoder = decoder(limit=bounds.event_bytes)
        self.reader = dialect.reader(self.calls)
        self.head = Head(0)
        self.received = 0  # bytes
        self.kept = bytearray()  # the beginning of what came, for errors
        self._body = bytearray()
        self._whole: Turn | None = None

    # -- step by step -------------------------------------------------------------------------------

    def begin(self, head: Head) -> None:
        """The head has come."""
        self.head = head

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; True once no more are needed."""
        self.received += len(chunk)
        self.keep(chunk)
        if not self.is_expected():
            return len(self.kept) >= self.bounds.kept_bytes
        self.bounded()
        if self.mode == "block":
            self._body += chunk
            return False
        for event in self.decoder.feed(chunk):
            self.reader.read(event)
            if self.is_over():
                return True
        return False

    def end(self) -> Turn:
        """Nothing more comes, or is needed: the turn, or the error that says why there is none."""
        if not self.is_expected():
            return self.unexpected()
        self._whole = self.streamed() if self.mode == "stream" else self.block()
        return self._whole

    def so_far(self) -> Turn:
        """What has come, unchecked: for reports."""
        return self._whole or self.reader.so_far()

    # -- guards ----------------------------------------------------------------------------------------

    def keep(self, chunk: bytes) -> None:
        """Guard: of the raw response only the beginning is kept."""
        self.kept += chunk[: self.bounds.kept_bytes - len(self.kept)]

    def bounded(self) -> None:
        """Guard: a response has a size beyond which it is not read, whatever it consists of."""
        limit = self.bounds.stream_bytes if self.mode == "stream" else self.bounds.body_bytes
        if self.received > limit:
            raise errors.ReplyTooLarge(f"the response is larger than limit={limit} bytes")

    def is_expected(self) -> bool:
        """Guard: only what was asked for is read as a reply. A page with status 200 is none."""
        wanted = EVENT_STREAM if self.mode == "stream" else JSON
        plain = self.head.encoding in ("", "identity")
        return self.head.status == 200 and self.head.media_type == wanted and plain

    def is_over(self) -> bool:
        """Guard: the completion marker ends the wait; the end of the connection is not waited for."""
        return self.reader.over

    def streamed(self) -> Turn:
        """Guard: a stream is a turn once its marker *and* its finish reason have come, and not before."""
        if not self.reader.begun:
            marker = "nothing but the completion marker" if self.reader.over else "nothing"
            raise errors.EmptyReply(f"the stream says {marker}: received={self.received} bytes")
        return self.finished(self.reader.turn() if self.reader.over else self.so_far())

    def finished(self, turn: Turn) -> Turn:
        """Guard: as ``streamed``, where something had come."""
        if turn.finish is None or (self.mode == "stream" and not self.reader.over):
            marker = "yes" if self.reader.over else "no"
            raise errors.IncompleteReply(
                f"the response ended early: received={self.received} bytes "
                f"finish={turn.reason or 'none'} marker={marker}"
            )
        return turn

    def block(self) -> Turn:
        """Guard: a body that is not streamed is one whole JSON object with a finish reason."""
        if not self._body.strip():
            raise errors.EmptyReply("the body is empty")
        try:
            body = parse_loosely(self._body.decode("utf-8-sig"))
        except (NotJson, UnicodeDecodeError) as error:
            raise errors.IncompleteReply(f"the body is not whole JSON: {error}; {self._came()}") from None
        if not isinstance(body, dict):
            raise errors.BrokenReply(f"the body is not a JSON object; {self._came()}")
        return self.finished(self.dialect.read_body(body, self.calls))

    def unexpected(self) -> Turn:
        """Guard: an error keeps its kind, and anything else that is no reply is shown to the caller."""
        detail = self._error_body()
        if self.head.status != 200:
            inner = detail.get("error")
            raise provider_error(inner if isinstance(inner, dict) else detail, self.head.status, self._came())
        raise error_in(detail) or errors.NotAReply(
            f"this is no reply of the model: status=200 {self._came()}"
        )

    def _error_body(self) -> dict[str, Any]:
        """The body as an object where it is one."""
        try:
            found = parse_loosely(self.kept.decode("utf-8-sig"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _came(self) -> str:
        head = self.head
        said = {"content-type": head.content_type, "encoding": head.encoding, "location": head.location}
        words = [f"{name}={value[:100]}" for name, value in said.items() if value or name == "content-type"]
        return " ".join([*words, f"body={errors.shown(bytes(self.kept))}"])
