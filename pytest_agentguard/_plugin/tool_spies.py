"""Makes the tool spies of a test: from a name and types, from a function, or the standard ones by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_agentguard._core.contracts import PURGE, RECORD, REMOVE, SHELL, Behaviour, ToolSpec
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Recorder
from pytest_agentguard._witnesses.tool_spy import SpiedTool, build_tool, spy_function, tool_spec


class ToolSpies:
    """The tools of one test: called, it makes one; the standard ones are attributes."""

    def __init__(self, recorder: Recorder, *, seed: str = "0") -> None:
        self._recorder = recorder
        self._nonce = CountedIds(seed).nonce
        self._made: dict[str, SpiedTool] = {}

    def __call__(
        self,
        tool: str | Callable[..., Any],
        /,
        *,
        returns: Any = None,
        raises: str | None = None,
        hold: bool = False,
        swallow_cancel: bool = False,
        size: int = 0,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        **types: Any,
    ) -> SpiedTool:
        """A tool that records its calls.

        ``tool`` is a name, with a type or a default for each parameter (``path=str, dry_run=False``) or their
        JSON Schema as ``parameters``; or a function, whose signature it takes and which never runs. It
        ``returns`` a text or a JSON value (``{nonce}`` and ``{arguments}`` are replaced), ``raises`` with a
        message, or is slow: ``hold`` until released; with ``swallow_cancel`` not even a cancel stops it.
        ``size`` pads the result to so many bytes.
        """
        behaviour = _behaviour(returns, raises, hold, swallow_cancel, size)
        if isinstance(tool, str):
            if not tool:
                raise UsageError("tool_spy() takes a tool's name, not ''")
            spec = _spec(tool, parameters, types)
            spec = replace(spec, description=description, behaviour=behaviour)
            return self._kept(tool, lambda: self._built(spec))
        if not callable(tool):
            raise UsageError(f"tool_spy() takes a tool's name or a function, not {tool!r}")
        if types or parameters is not None or description:
            raise UsageError("tool_spy(function) takes parameters and description from the function")
        name = getattr(tool, "__name__", type(tool).__name__)
        return self._kept(
            name, lambda: spy_function(tool, self._recorder, behaviour=behaviour, nonce=self._nonce)
        )

    @property
    def record(self) -> SpiedTool:
        """The standard tool: ``record(x: str, y: str = "")``."""
        return self._standard(RECORD)

    @property
    def purge(self) -> SpiedTool:
        """Bait for a fall-back to ``{}``: every parameter is optional and the default is dangerous."""
        return self._standard(PURGE)

    @property
    def shell(self) -> SpiedTool:
        """Bait for raw text that is handed over as it came: one plain string parameter."""
        return self._standard(SHELL)

    @property
    def remove(self) -> SpiedTool:
        """Bait for a partial repair: the safety flag comes last."""
        return self._standard(REMOVE)

    def __iter__(self) -> Iterator[SpiedTool]:
        return iter(self._made.values())

    def release(self) -> None:
        """Let go of every held call."""
        for spy in self:
            spy.release()

    def _standard(self, spec: ToolSpec) -> SpiedTool:
        made = self._made.get(spec.name)
        return made if made is not None else self._kept(spec.name, lambda: self._built(spec))

    def _built(self, spec: ToolSpec) -> SpiedTool:
        return build_tool(spec, self._recorder, nonce=self._nonce)

    def _kept(self, name: str, build: Callable[[], SpiedTool]) -> SpiedTool:
        if name in self._made:
            raise UsageError(f"tool_spy() has made a tool named {name!r} in this test already")
        made = self._made[name] = build()
        return made


def _spec(name: str, parameters: Mapping[str, Any] | None, types: Mapping[str, Any]) -> ToolSpec:
    if parameters is None:
        return tool_spec(name, **types)
    if types:
        raise UsageError("tool_spy() takes parameters= or a type for each parameter, not both")
    return ToolSpec(name=name, parameters=dict(parameters))


def _behaviour(returns: Any, raises: str | None, hold: bool, swallow_cancel: bool, size: int) -> Behaviour:
    if raises is not None:
        if returns is not None or hold or swallow_cancel or size:
            raise UsageError("tool_spy(raises=…) goes with no other behaviour")
        if not isinstance(raises, str):
            raise UsageError(f"tool_spy(raises=…) takes the message of the error, not {raises!r}")
        return Behaviour(does="raise", error=raises)
    does = "swallow-cancel" if swallow_cancel else "hold" if hold else "return"
    if returns is None:
        return Behaviour(does=does, size=size)
    text = returns if isinstance(returns, str) else json.dumps(returns)
    return Behaviour(does=does, result=text, size=size)
