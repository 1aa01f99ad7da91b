"""What a fault is: a function that spoils a reply, and what a correct client must make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pytest_agentguard._core.contracts import MODES
from pytest_agentguard._core.reply import Reply


class Seen(StrEnum):
    """What a correct client must see in a spoiled reply."""

    WHOLE = "whole"  # the answer, as if nothing had happened
    INCOMPLETE = "incomplete"  # an answer that never became whole: a failure, and no tool runs
    WITHDRAWN = "withdrawn"  # a whole answer whose finish reason forbids its calls
    ERROR = "error"  # an error of the provider
    EMPTY = "empty"  # no answer at all
    FOREIGN = "foreign"  # something that is not a model's answer
    SILENT = "silent"  # nothing more comes: only the client's own limits end it


@dataclass(frozen=True, slots=True)
class Fault:
    """A named way to spoil a reply.

    ``apply`` is a pure function from reply to reply, ``seen`` what a correct client must make of it.
    ``modes`` are those in which the fault exists: a body that is not streamed has no error event.
    """

    apply: Callable[[Reply], Reply]
    seen: Seen
    modes: tuple[str, ...] = MODES
    id: str = ""  # given by the catalogue from the file name
    summary: str = ""  # first line of the file's docstring

    def __call__(self, reply: Reply) -> Reply:
        """The spoiled reply."""
        return self.apply(reply)
