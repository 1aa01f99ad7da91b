"""What an agent is given and what it gives back: job, limits, tools, adapter."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_agentguard._core import limits as _limits

DIALECTS = ("openai-chat", "anthropic")
MODES = ("stream", "block")
SURFACES = ("chat", "fetch")
_TIMES = ("idle_timeout", "request_timeout", "deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the agent must keep to.

    None leaves the agent's default, and rules that need the limit are not exercised.
    """

    attempts: int | None = None  # requests per model turn, the first try included
    rounds: int | None = None  # model turns
    tool_calls: int | None = None
    idle_timeout: float | None = None  # silence within a response, s
    request_timeout: float | None = None  # one whole exchange, s
    deadline: float | None = None  # the whole run, s
    output_bytes: int | None = None
    context_tokens: int | None = None

    def declared(self) -> dict[str, Any]:
        """The limits that are set, by name."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def times(self) -> dict[str, float]:
        """The limits in seconds that are set, by name."""
        return {name: value for name, value in self.declared().items() if name in _TIMES}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Where the model is: ``base_url`` as the dialect's official SDK expects it, ``root_url`` bare."""

    dialect: str
    base_url: str
    root_url: str
    api_key: str = "agentguard-dummy-key"
    model: str = "agentguard-model"


class Tool(Protocol):
    """A tool that the agent may run, sync or async, with a real typed signature; its calls are witnessed."""

    name: str
    description: str
    parameters: dict[str, Any]  # JSON Schema
    run: Callable[..., Any]
    arun: Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What a tool spy does when it is called.

    ``does``: ``return`` · ``raise`` · ``hold`` (slow until released, ``limit`` seconds at most) ·
    ``swallow-cancel`` (as hold, but a cancel is swallowed). ``result`` is the text returned, ``{nonce}`` and
    ``{arguments}`` replaced; ``size`` pads it to so many bytes.
    """

    does: str = "return"
    result: str = "done {nonce}"
    size: int = 0
    error: str = "the tool failed"
    limit: float = _limits.HOLD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool spy as data, so that it can be built in the agent's own process."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}, "additionalProperties": False}
    )
    behaviour: Behaviour = Behaviour()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What an agent is asked to do. ``workdir`` is a directory of its own; ``env`` is for child processes."""

    prompt: str
    endpoint: ModelEndpoint
    mode: str = "stream"  # or "block"
    tools: tuple[Tool, ...] = ()
    limits: Limits = Limits()
    workdir: str = ""
    session: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchJob:
    """What a fetch tool is made for.

    ``allowed`` maps the ids that it may fetch to their URLs; every other input is to be refused without a
    request. Its limits count for everything that this one tool does: ``attempts`` requests in all,
    ``request_timeout`` for each, ``deadline`` from the moment when it was made, ``output_bytes`` for a
    result. ``token`` goes with each request as ``Authorization: Bearer …``; it belongs to the origins of
    ``allowed`` and to no other. Once a use of it was cancelled, the tool is stopped: it refuses every later
    use without a request.
    """

    allowed: Mapping[str, str]
    limits: Limits = Limits()
    token: str = "agentguard-dummy-token"
    method: str = "GET"
    body: str = ""
    workdir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """What an adapter returns where its framework says more than return or raise.

    ``how``: ``completed`` · ``limited`` · ``failed`` · ``cancelled``. ``answer`` is the text, if any;
    ``error`` the message.
    """

    how: str
    answer: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """How one kind of agent is run.

    ``run(job)`` is a plain or an async function; it returns the answer (or a ``RunEnd``) or raises.
    ``backend`` runs an async one on ``asyncio`` or ``trio``. ``dialects`` and ``modes`` are what it offers;
    ``declared`` limits that it keeps by itself, where a job sets none. ``cancel`` stops the synchronous run
    of the ``Job`` or ``FetchJob`` that it is given, called from another thread; without it, such a run is
    stopped by SIGINT. ``kept`` gives, after a cancel, the text that had arrived and was kept (empty, where
    nothing was; None, where nothing can be said of it). ``fetch`` makes
    a fetch tool for a ``FetchJob``: a plain or async callable that takes an input and returns a text or
    raises; its ``aclose`` or ``close`` is called at the end, where it has one.
    ``prepare`` is called once where the agent is loaded, before any run (imports, warm clients);
    ``start``/``stop`` surround each run. ``overlap`` is how many runs may go on at a time; ``distributions``
    are the packages whose versions the report names.
    """

    name: str
    run: Callable[[Job], Any]
    dialects: tuple[str, ...] = DIALECTS
    modes: tuple[str, ...] = MODES
    declared: Limits = Limits()
    backend: str = "asyncio"
    cancel: Callable[[Any], Any] | None = None
    kept: Callable[[Job], str | None] | None = None
    fetch: Callable[[FetchJob], Callable[[str], Any]] | None = None
    prepare: Callable[[], Any] | None = None
    start: Callable[[], Any] | None = None
    stop: Callable[[], Any] | None = None
    overlap: int = _limits.JOBS
    surfaces: tuple[str, ...] = ("chat",)
    distributions: tuple[str, ...] = ()


def is_async(run: Callable[..., Any]) -> bool:
    """Whether calling it gives something to be awaited, as far as can be told without calling it."""
    called = vars(type(run)).get("__call__")
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(called)


def is_plain(adapter: Adapter) -> bool:
    """Whether the adapter was made from a bare function, which says nothing of dialects and modes."""
    return not adapter.distributions and adapter.name.count(":") > 0


RECORD = ToolSpec(
    name="record",
    description="Record a value.",
    parameters={
        "type": "object",
        "properties": {"x": {"type": "string"}, "y": {"type": "string", "default": ""}},
        "required": ["x"],
        "additionalProperties": False,
    },
)
"""The standard tool: ``record(x: str, y: str = "")``."""

PURGE = ToolSpec(
    name="purge",
    description="Delete everything in a scope.",
    parameters={
        "type": "object",
        "properties": {
            "scope": {"type": "string", "default": "/"},
            "reason": {"type": "string", "default": ""},
        },
        "additionalProperties": False,
    },
)
"""Bait: every parameter is optional and the default is dangerous. Finds a fall-back to ``{}``."""

SHELL = ToolSpec(
    name="shell",
    description="Run a command line.",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
)
"""Bait: one plain string parameter. Finds raw text that is handed over as it came."""

REMOVE = ToolSpec(
    name="remove",
    description="Remove a path; with dry_run nothing is removed.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "dry_run": {"type": "boolean", "default": False}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
"""Bait: a safety flag comes last. Finds a partial repair that drops it."""
