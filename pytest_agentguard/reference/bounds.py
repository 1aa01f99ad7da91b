"""Every limit of the agent in one table: what the job declares, and a default for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Nothing that comes from outside is waited for longer, or kept larger, than this says."""

    attempts: int = 1  # requests for one turn of the model
    rounds: int = 16  # turns of the model
    tool_calls: int = 64  # in the whole run
    idle_timeout: float | None = 60.0  # silence within a response, s
    request_timeout: float | None = 600.0  # one whole exchange, s
    deadline: float | None = 3600.0  # the whole run, s
    connect_timeout: float = 10.0  # s
    output_tokens: int = 4096  # asked of the model where the dialect wants a number
    output_bytes: int = 256 * KIB  # of one tool result, as the model sees it
    event_bytes: int = MIB  # of one event of a stream
    stream_bytes: int = 16 * MIB  # of one streamed response, keep-alives included
    body_bytes: int = 4 * MIB  # of one response that is not streamed
    kept_bytes: int = 64 * KIB  # of the raw response that errors carry
    arguments_bytes: int = 2 * MIB  # of one call's arguments
    arguments_depth: int = 64  # objects and arrays within each other
    fetches: int = 64  # requests of one fetch tool, in its whole life
    fetch_attempts: int = 3  # requests for one call of it

    @classmethod
    def declared(cls, limits: Any) -> Bounds:
        """The bounds of a job: its limits where it sets them, these defaults otherwise."""
        times = ("idle_timeout", "request_timeout", "deadline")
        names = ("attempts", "rounds", "tool_calls", "output_bytes", *times)
        values = {name: getattr(limits, name, None) for name in names}
        return cls(**{name: value for name, value in values.items() if value is not None})
