"""What the model says in one turn, and its tool calls on their way in, kept apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_agentguard.reference.errors import BrokenReply, shown

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")  # others cannot be sent back in a transcript


class Finish(StrEnum):
    """Why the model stopped, in the words of all dialects."""

    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as it came: ``arguments`` is raw text, whatever it holds."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model. ``reason`` is the finish reason in the provider's own word."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: Finish | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What the model is told about one of its calls."""

    call: Call
    text: str
    failed: bool = False


@dataclass(slots=True)
class Pieces:
    """One call on its way in."""

    id: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)


class Calls:
    """The calls of one turn, each under the index that its pieces carry."""

    def __init__(self) -> None:
        self.begun: dict[int, Pieces] = {}  # in the order in which they began

    def begin(self, index: int, id: str | None, name: str | None) -> None:
        """The call at ``index`` has this id and name. Both may be repeated, but never changed."""
        pieces = self.begun.setdefault(index, Pieces())
        pieces.id = _kept("id", index, pieces.id, id)
        pieces.name = _kept("name", index, pieces.name, name)

    def add(self, index: int, fragment: str) -> None:
        """The next piece of the arguments of the call at ``index``."""
        pieces = self.begun[self.place(index)]
        if fragment:
            pieces.fragments.append(fragment)

    def place(self, index: int) -> int:
        """Guard: a piece belongs to the call whose index it carries, and to no other."""
        if index not in self.begun:
            raise BrokenReply(f"arguments for a call that has not begun: index={index}")
        return index

    def identity(self, pieces: Pieces) -> str:
        """Guard: a call has the id that came with it; none is ever made up."""
        if not pieces.id:
            raise BrokenReply(f"a call came without an id: name={shown(pieces.name)}")
        return pieces.id

    def joined(self, fragments: Sequence[str]) -> str:
        """Guard: the arguments are all pieces in the order in which they came."""
        return "".join(fragments)

    def whole(self) -> tuple[Call, ...]:
        """The calls of a complete turn. Raises ``BrokenReply`` where one cannot be told from another."""
        calls = tuple(
            Call(self.identity(pieces), _named(pieces), self.joined(pieces.fragments))
            for pieces in self.begun.values()
        )
        ids = [call.id for call in calls]
        if len(set(ids)) < len(ids):
            raise BrokenReply(f"two calls of one turn have the same id: ids={ids}")
        return calls

    def so_far(self) -> tuple[Call, ...]:
        """What has come, unchecked: for reports, never to be run."""
        return tuple(Call(p.id, p.name, "".join(p.fragments)) for p in self.begun.values())


def _kept(what: str, index: int, old: str, new: str | None) -> str:
    if new and old and new != old:
        raise BrokenReply(f"the {what} of a call changed: index={index} {shown(old)} to {shown(new)}")
    return old or new or ""


def _named(pieces: Pieces) -> str:
    if not _TOOL_NAME.fullmatch(pieces.name):
        raise BrokenReply(f"a call has no usable tool name: id={shown(pieces.id)} name={shown(pieces.name)}")
    return pieces.name
