"""What the host and its warm parent tell each other, as data that survives JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_agentguard._core import limits as _limits
from pytest_agentguard._core.contracts import DIALECTS, MODES, Behaviour, Limits, ToolSpec
from pytest_agentguard._core.scenario import Cancel, FetchCall

_LANES_WITH_DIRECTORIES = 16
as_json = json.JSONEncoder(separators=(",", ":"), default=str).encode  # an agent may replace `json.dumps`


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOrder:
    """What a fetch tool is made for and asked to do, with every address filled in."""

    allowed: Mapping[str, str]  # id -> URL
    calls: tuple[FetchCall, ...]
    token: str = ""
    method: str = "GET"
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """One job of a run: what becomes a ``Job`` in the agent's process, and the lane that its facts carry."""

    lane: str
    prompt: str
    dialect: str
    base_url: str
    root_url: str
    mode: str = "stream"
    tools: tuple[ToolSpec, ...] = ()
    limits: Limits = field(default_factory=Limits)
    final: str = ""
    session: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    fetch: FetchOrder | None = None  # in place of a prompt: the fetch surface


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One run: jobs that go on side by side in one process, and where their facts are written.

    ``seconds`` is the hard deadline of all jobs together, ``watch`` the observation window after the last of
    them has ended; ``at_once`` bounds the jobs that go on at a time. ``env`` is added to the environment.
    ``cancel`` says when the only job is cancelled; ``barrier`` is a URL whose answer says that everything
    sent so far has been read, and that the stop is on record.
    """

    id: str
    jobs: tuple[JobOrder, ...]
    journal: Path
    seconds: float = _limits.RUN_SECONDS
    watch: float = _limits.WATCH_SECONDS
    at_once: int = 64
    memory: bool = False
    agent: str = ""
    scenario: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cancel: Cancel | None = None
    barrier: str = ""

    @property
    def own_lane(self) -> str:
        """The lane of facts about the whole process: the only one, or none where there are several."""
        return self.jobs[0].lane if len(self.jobs) == 1 else ""

    def workdir(self, job: JobOrder) -> Path:
        """The directory that a job may write in; the many lanes of a sweep share one: making it costs."""
        lane = job.lane if len(self.jobs) <= _LANES_WITH_DIRECTORIES else ""
        return self.journal.parent / f"work-{self.id}" / (lane.replace("/", "_") or "all")

    def to_json(self) -> str:
        """One line. The lanes of a sweep have their tools in common, so each set of tools is written once."""
        shared = list(dict.fromkeys(map(id, (job.tools for job in self.jobs))))
        tools = {id(job.tools): job.tools for job in self.jobs}
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        data["tools"] = [[dataclasses.asdict(tool) for tool in tools[one]] for one in shared]
        data["cancel"] = None if self.cancel is None else dataclasses.asdict(self.cancel)
        place = {one: n for n, one in enumerate(shared)}
        data["jobs"] = [_plain(job, place[id(job.tools)]) for job in self.jobs]
        return json.dumps(data, default=_default, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> RunOrder:
        """The order that ``to_json`` wrote."""
        data = json.loads(text)
        shared = [tuple(_tool(tool) for tool in tools) for tools in data.pop("tools")]
        jobs = tuple(_job(job, shared) for job in data.pop("jobs"))
        cancel = data.pop("cancel")
        data["cancel"] = None if cancel is None else Cancel(**cancel)
        return cls(**{**data, "journal": Path(data["journal"])}, jobs=jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What an agent offers, once it is imported; ``error`` says why it could not be.

    ``version`` is that of the first of its distributions, ``versions`` has all. ``plain``: it was made from a
    bare function. ``fresh``: the import left threads behind, so that each run imports the agent anew.
    ``is_wrong_use``: the error is the spec's and not the agent's. ``cancels``: how a run is cancelled, by its
    ``task``, by a ``call`` of the adapter, by an ``interrupt``, or (empty) not at all.
    """

    name: str = ""
    version: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    dialects: tuple[str, ...] = DIALECTS
    modes: tuple[str, ...] = MODES
    surfaces: tuple[str, ...] = ("chat",)
    declared: Limits = field(default_factory=Limits)
    overlap: int = _limits.JOBS
    plain: bool = False
    cancels: str = ""
    fresh: bool = False
    error: str = ""
    is_wrong_use: bool = False

    def to_json(self) -> str:
        """One line."""
        return as_json(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Hello:
        """The hello that ``to_json`` wrote."""
        data = json.loads(text)
        for name in ("dialects", "modes", "surfaces"):
            data[name] = tuple(data[name])
        return cls(**{**data, "declared": Limits(**data["declared"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReceipt:
    """What a run leaves besides its journal; ``error`` says why it could not be run, or not to its end."""

    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    error: str = ""

    def to_json(self) -> str:
        """One line."""
        return as_json(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> RunReceipt:
        """The receipt that ``to_json`` wrote."""
        return cls(**json.loads(text))


def _plain(job: JobOrder, tools: int) -> dict[str, Any]:
    data = {field.name: getattr(job, field.name) for field in dataclasses.fields(job)}
    fetch = None if job.fetch is None else dataclasses.asdict(job.fetch)
    return {**data, "tools": tools, "limits": job.limits.declared(), "env": dict(job.env), "fetch": fetch}


def _default(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _job(data: dict[str, Any], shared: list[tuple[ToolSpec, ...]]) -> JobOrder:
    tools, fetch = shared[data.pop("tools")], data.pop("fetch")
    return JobOrder(
        **{**data, "limits": Limits(**data["limits"])}, tools=tools, fetch=fetch and _fetch(fetch)
    )


def _fetch(data: dict[str, Any]) -> FetchOrder:
    calls = tuple(FetchCall(**call) for call in data.pop("calls"))
    return FetchOrder(**data, calls=calls)


def _tool(data: dict[str, Any]) -> ToolSpec:
    return ToolSpec(**{**data, "behaviour": Behaviour(**data["behaviour"])})
