"""Tool spies: callables with a real signature that record their calls and do what they are told."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from pytest_agentguard._core.contracts import Behaviour, ToolSpec
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._core.events import (
    Event,
    ToolCancelled,
    ToolFinished,
    ToolMiscalled,
    ToolRaised,
    ToolStarted,
    Witness,
)
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Recorder
from pytest_agentguard._witnesses.gate import Gate
from pytest_agentguard._witnesses.journal_file import AcrossProcesses
from pytest_agentguard._witnesses.signatures import document, hints_of, schema_of, signature_of, tool_spec

__all__ = ["RecordedCall", "SpiedTool", "ToolFailed", "build_tool", "spy_function", "tool_spec"]

_DEPTH = 40  # levels of a recorded argument, then its repr
_spies = count(1)


class ToolFailed(RuntimeError):
    """What a tool spy raises that was told to fail."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a tool spy: the arguments by name, as they were passed (defaults are left out)."""

    arguments: dict[str, Any]
    invocation: str = ""


def build_tool(
    spec: ToolSpec, recorder: Recorder, *, lane: str = "", nonce: Callable[[], str] | None = None
) -> SpiedTool:
    """A tool spy from data; ``nonce`` makes what ``{nonce}`` in its result stands for, new at each call."""
    return SpiedTool(spec, recorder, signature_of(spec), document(spec), lane=lane, nonce=nonce)


def spy_function(
    function: Callable[..., Any],
    recorder: Recorder,
    *,
    lane: str = "",
    behaviour: Behaviour = Behaviour(),  # noqa: B008
    nonce: Callable[[], str] | None = None,
) -> SpiedTool:
    """A tool spy with the name, signature and docstring of ``function``, which never runs.

    A spy of an async function is one itself: calling it gives an awaitable.
    """
    hints = hints_of(function)
    try:
        signature = inspect.signature(function)
    except ValueError as problem:  # of some built-in types
        raise UsageError(f"tool_spy() takes a function with a signature: {problem}") from None
    signature = signature.replace(
        parameters=[
            p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()
        ]
    )
    name = getattr(function, "__name__", type(function).__name__)
    doc = inspect.getdoc(function) or ""
    spec = ToolSpec(
        name=name,
        description=doc.partition("\n")[0],
        parameters=schema_of(signature, hints),
        behaviour=behaviour,
    )
    is_async = inspect.iscoroutinefunction(function)
    return SpiedTool(spec, recorder, signature, doc, lane=lane, nonce=nonce, is_async=is_async)


class SpiedTool:
    """A tool whose calls are witnessed: the start before any effect, the end after it.

    ``run`` and ``arun`` are plain functions with the tool's signature; the spy itself may be called as well.
    """

    def __init__(
        self,
        spec: ToolSpec,
        recorder: Recorder,
        signature: inspect.Signature,
        doc: str,
        *,
        lane: str = "",
        nonce: Callable[[], str] | None = None,
        is_async: bool = False,
        key: str = "",
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.description = spec.description
        self.parameters: dict[str, Any] = dict(spec.parameters)
        self._behaviour = spec.behaviour
        self._recorder = recorder
        self._lane = lane
        self._nonce = nonce or CountedIds(os.urandom(8).hex()).nonce
        self._is_async = is_async
        self._key = key or f"t{next(_spies)}"
        self._owner = os.getpid()
        self._numbers = count(1)
        self._gate = Gate()
        self._calls: list[RecordedCall] = []
        self.__signature__ = signature
        self.__doc__ = doc
        self.__name__ = self.__qualname__ = spec.name
        self.__annotations__ = _annotations(signature)
        self.run, self.arun = self._functions()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self.arun if self._is_async else self.run)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<SpiedTool {self.name}{self.__signature__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self.spec, self._recorder, self.__signature__, self.__doc__, self._lane, self._is_async)
        return _rebuilt, (*state, self._key)

    def __copy__(self) -> SpiedTool:
        return self  # as with a function

    def __deepcopy__(self, memo: Any) -> SpiedTool:
        return self

    @property
    def calls(self) -> list[RecordedCall]:
        """The calls so far: those of this process, then those that its children have recorded."""
        recorder = self._recorder
        if not isinstance(recorder, AcrossProcesses):
            return list(self._calls)
        prefix = f"{self._key}."
        children = [fields for _, kind, fields in recorder.entries() if kind is ToolStarted]
        return self._calls + [
            RecordedCall(fields["arguments"], fields["invocation"])
            for fields in children
            if fields["invocation"].startswith(prefix)
        ]

    def release(self) -> None:
        """Let calls that are held return, from whatever thread; later ones are not held any more."""
        self._gate.open()

    # -- calls ---------------------------------------------------------------------------------------

    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        def run(*args: Any, **kwargs: Any) -> str:
            return self._run(args, kwargs)

        async def arun(*args: Any, **kwargs: Any) -> str:
            return await self._arun(args, kwargs)

        functions: tuple[Any, Any] = (run, arun)
        for function in functions:
            function.__name__ = function.__qualname__ = self.name
            function.__doc__ = self.__doc__
            function.__annotations__ = _annotations(self.__signature__)
            function.__signature__ = self.__signature__
        return functions

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        invocation, arguments = self._bound(args, kwargs)
        try:
            self._started(invocation, arguments)
            if self._holds():
                self._gate.wait(self._behaviour.limit)
        except Exception:  # the recorder's
            raise
        except (
            BaseException
        ):  # KeyboardInterrupt, or what a signal handler raises, as soon as it is on record
            if not self._cancelled(invocation):
                raise
        return self._finish(invocation, arguments)

    async def _arun(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        invocation, arguments = self._bound(args, kwargs)
        self._started(invocation, arguments)
        if self._holds():
            try:
                await self._gate.passed(self._behaviour.limit)
            except BaseException as error:  # the cancellation of any back end
                if not self._cancelled(invocation) or isinstance(error, GeneratorExit):
                    raise
        return self._finish(invocation, arguments)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            given = {**({"*args": args} if args else {}), **kwargs}
            self._record(ToolMiscalled, error=str(error), arguments=as_json(given))
            raise TypeError(f"{self.name}() {error}") from None
        return self._invocation(), _flat(bound)

    def _started(self, invocation: str, arguments: dict[str, Any]) -> None:
        self._calls.append(RecordedCall(arguments, invocation))
        self._record(ToolStarted, invocation=invocation, arguments=as_json(arguments))

    def _holds(self) -> bool:
        return self._behaviour.does in ("hold", "swallow-cancel")

    def _cancelled(self, invocation: str) -> bool:
        swallowed = self._behaviour.does == "swallow-cancel"
        self._record(ToolCancelled, invocation=invocation, swallowed=swallowed)
        return swallowed

    def _finish(self, invocation: str, arguments: Mapping[str, Any]) -> str:
        if self._behaviour.does == "raise":
            self._record(ToolRaised, invocation=invocation, error=self._behaviour.error)
            raise ToolFailed(self._behaviour.error)
        result = self._result(arguments)
        self._record(ToolFinished, invocation=invocation, result=result)
        return result

    def _result(self, arguments: Mapping[str, Any]) -> str:
        text = self._behaviour.result
        if "{nonce}" in text:
            text = text.replace("{nonce}", self._nonce())
        if "{arguments}" in text:
            text = text.replace("{arguments}", json.dumps(as_json(arguments), ensure_ascii=False))
        return text + "." * (self._behaviour.size - len(text.encode("utf-8", "replace")))

    def _invocation(self) -> str:
        pid = os.getpid()
        return f"{self._key}.{next(self._numbers)}" + (f"@{pid}" if pid != self._owner else "")

    def _record(self, kind: type[Event], **fields: Any) -> None:
        if self._lane:
            fields["lane"] = self._lane
        self._recorder.record(kind, witness=Witness.TOOL_SPY, tool=self.name, **fields)


def as_json(value: Any) -> Any:
    """A copy of ``value`` as JSON can hold it; what it cannot hold is given by its ``repr``.

    A call must not go unrecorded because of its arguments, so nothing of a subclass is called.
    """
    return _as_json(value, _DEPTH)


def _as_json(value: Any, depth: int) -> Any:
    kind = type(value)  # isinstance() would ask the value itself, and a proxy may raise
    if value is None or kind is bool:
        return value
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if depth and issubclass(kind, dict):
        return {_name(name): _as_json(member, depth - 1) for name, member in dict.items(value)}
    if depth and issubclass(kind, list | tuple):
        members = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
        return [_as_json(member, depth - 1) for member in members]
    return _repr(value)


def _name(name: Any) -> str:
    return str.__str__(name) if issubclass(type(name), str) else _repr(name)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except (Exception, SystemExit):  # somebody else's code
        return f"<{type(value).__qualname__} without a repr>"


def _flat(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Arguments by name, positional ones too, with those of ``**kwargs`` beside the others."""
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        else:
            arguments[name] = value
    return arguments


def _annotations(signature: inspect.Signature) -> dict[str, Any]:
    empty = inspect.Parameter.empty
    made = {p.name: p.annotation for p in signature.parameters.values() if p.annotation is not empty}
    if signature.return_annotation is not inspect.Signature.empty:
        made["return"] = signature.return_annotation
    return made


def _rebuilt(
    spec: ToolSpec,
    recorder: Recorder,
    signature: inspect.Signature,
    doc: str,
    lane: str,
    is_async: bool,
    key: str,
) -> SpiedTool:
    """A spy that has reached another process by pickling; it carries the same key and counts as a child's."""
    spy = SpiedTool(spec, recorder, signature, doc, lane=lane, is_async=is_async, key=key)
    spy._owner = 0
    return spy
