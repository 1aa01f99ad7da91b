"""A tool spy looks like a function, records what it was called with, and does what it is told."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import multiprocessing
import os
import pickle
import threading
import time
import typing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from pytest_agentguard import PURGE, RECORD, REMOVE, SHELL, Behaviour, Ledger, ToolSpec, UsageError
from pytest_agentguard._witnesses.journal_file import AcrossProcesses
from pytest_agentguard._witnesses.tool_spy import (
    SpiedTool,
    ToolFailed,
    build_tool,
    spy_function,
    tool_spec,
)
from pytest_agentguard.events import (
    ToolCancelled,
    ToolFinished,
    ToolMiscalled,
    ToolRaised,
    ToolStarted,
)

BOUND = 10.0


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(clock=time.monotonic)


def kinds(ledger: Ledger) -> list[str]:
    return [type(event).__name__ for event in ledger]


def behaving(recorder: Any, **behaviour: Any) -> SpiedTool:
    return build_tool(replace(RECORD, behaviour=Behaviour(**behaviour)), recorder)


def on_each_backend(test: Callable[[], Any]) -> None:
    """Run an async function on asyncio, then on trio."""
    asyncio.run(test())
    trio.run(test)


# -- how it looks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "signature"),
    [
        (RECORD, "(x: str, y: str = '') -> str"),
        (PURGE, "(scope: str = '/', reason: str = '') -> str"),
        (SHELL, "(command: str) -> str"),
        (REMOVE, "(path: str, dry_run: bool = False) -> str"),
        (ToolSpec(name="nothing"), "() -> str"),
    ],
)
def test_standard_tools_have_real_signatures(ledger: Ledger, spec: ToolSpec, signature: str) -> None:
    tool = build_tool(spec, ledger)

    for function in (tool, tool.run, tool.arun):
        assert str(inspect.signature(function)) == signature
        assert function.__name__ == spec.name
    assert tool.parameters == spec.parameters
    assert inspect.isfunction(tool.run)
    assert inspect.iscoroutinefunction(tool.arun)
    assert not inspect.iscoroutinefunction(tool.run)


def test_annotations_are_types_that_can_be_resolved(ledger: Ledger) -> None:
    properties = {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "f": {"type": "number"},
        "b": {"type": "boolean"},
        "a": {"type": "array"},
        "l": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object"},
        "e": {"enum": ["on", "off"]},
        "n": {"type": ["string", "null"]},
        "any": {},
        "later": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": [n for n in properties if n != "later"]}
    tool = build_tool(ToolSpec(name="all", parameters=schema), ledger)

    assert typing.get_type_hints(tool.run) == {
        "s": str,
        "i": int,
        "f": float,
        "b": bool,
        "a": list,
        "l": list[str],
        "o": dict,
        "e": Literal["on", "off"],
        "n": str | None,
        "any": Any,
        "later": str | None,
        "return": str,
    }


def test_required_parameters_come_first(ledger: Ledger) -> None:
    properties = {"late": {"type": "string", "default": "d"}, "first": {"type": "string"}}
    spec = ToolSpec(name="t", parameters={"type": "object", "properties": properties, "required": ["first"]})

    assert str(inspect.signature(build_tool(spec, ledger).run)) == "(first: str, late: str = 'd') -> str"


def test_the_docstring_describes_every_parameter(ledger: Ledger) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "what to keep"}}}
    tool = build_tool(ToolSpec(name="keep", description="Keep it.", parameters=schema), ledger)

    assert inspect.getdoc(tool.run) == "Keep it.\n\nArgs:\n    x: what to keep"


def test_a_parameter_that_python_cannot_name_is_refused(ledger: Ledger) -> None:
    schema = {"type": "object", "properties": {"dry-run": {"type": "boolean"}}}

    with pytest.raises(UsageError, match="tool 'remove': parameter 'dry-run' is not a Python name"):
        build_tool(ToolSpec(name="remove", parameters=schema), ledger)


def test_a_spec_is_made_from_python_types(ledger: Ledger) -> None:
    spec = tool_spec("remove", path=str, tags=list[str], mode=Literal["a", "b"], dry_run=False)

    assert spec.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mode": {"enum": ["a", "b"]},
            "dry_run": {"type": "boolean", "default": False},
        },
        "required": ["path", "tags", "mode"],
        "additionalProperties": False,
    }
    assert str(inspect.signature(build_tool(spec, ledger))).endswith("dry_run: bool = False) -> str")


# -- what it records --------------------------------------------------------------------------------


def test_a_call_is_recorded_before_and_after(ledger: Ledger) -> None:
    tool = build_tool(RECORD, ledger, lane="a", nonce=lambda: "k123456")

    assert tool.run(x="1") == "done k123456"

    started, finished = ledger
    assert isinstance(started, ToolStarted)
    assert isinstance(finished, ToolFinished)
    assert (started.tool, started.lane, started.arguments) == ("record", "a", {"x": "1"})
    assert finished.invocation == started.invocation
    assert finished.result == "done k123456"


def test_positional_arguments_are_recorded_by_name(ledger: Ledger) -> None:
    build_tool(RECORD, ledger)("1", "2")

    assert ledger.first(ToolStarted).arguments == {"x": "1", "y": "2"}


def test_defaults_that_were_not_passed_are_not_recorded(ledger: Ledger) -> None:
    build_tool(PURGE, ledger).run()

    assert ledger.first(ToolStarted).arguments == {}


def test_calls_are_listed_with_the_objects_that_were_passed(ledger: Ledger) -> None:
    tool = build_tool(tool_spec("delete_file", path=str), ledger)
    assert tool.calls == []

    tool(path=Path("/srv"))

    assert tool.calls[0].arguments == {"path": Path("/srv")}
    assert ledger.first(ToolStarted).arguments == {"path": "PosixPath('/srv')"}


def test_what_json_cannot_hold_is_recorded_by_its_repr(ledger: Ledger) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    circle: list[Any] = []
    circle.append(circle)
    deep = {"set": {1}, "bytes": b"x", "nan": float("nan"), 5: (1, True, None), "broken": Broken()}
    build_tool(RECORD, ledger).run(x=deep, y=circle)

    recorded = ledger.first(ToolStarted).arguments
    assert recorded["x"]["set"] == "{1}"
    assert recorded["x"]["bytes"] == "b'x'"
    assert recorded["x"]["nan"] != recorded["x"]["nan"]
    assert recorded["x"]["5"] == [1, True, None]
    assert recorded["x"]["broken"].endswith("Broken without a repr>")
    json.dumps(recorded)


def test_arguments_are_recorded_as_they_were_at_the_call(ledger: Ledger) -> None:
    given = ["before"]
    build_tool(RECORD, ledger).run(x=given)
    given.append("after")

    assert ledger.first(ToolStarted).arguments == {"x": ["before"]}


@pytest.mark.parametrize(
    ("args", "kwargs", "given"),
    [
        ((), {}, {}),
        ((), {"z": 1}, {"z": 1}),
        (("1", "2", "3"), {}, {"*args": ["1", "2", "3"]}),
        (("1",), {"x": "2"}, {"*args": ["1"], "x": "2"}),
    ],
)
def test_a_call_that_the_signature_does_not_take_is_no_start(
    ledger: Ledger, args: tuple[str, ...], kwargs: dict[str, Any], given: dict[str, Any]
) -> None:
    tool = build_tool(RECORD, ledger)

    with pytest.raises(TypeError, match=r"^record\(\) "):
        tool.run(*args, **kwargs)
    with pytest.raises(TypeError, match=r"^record\(\) "):
        asyncio.run(tool.arun(*args, **kwargs))

    assert kinds(ledger) == ["ToolMiscalled", "ToolMiscalled"]
    assert ledger.first(ToolMiscalled).arguments == given
    assert tool.calls == []


def test_a_coroutine_that_nobody_awaits_is_no_start(ledger: Ledger) -> None:
    build_tool(RECORD, ledger).arun(x="1").close()

    assert kinds(ledger) == []


def test_every_invocation_has_a_number_of_its_own(ledger: Ledger) -> None:
    tools = [build_tool(RECORD, ledger) for _ in range(2)]
    for tool in tools * 3:
        tool.run(x="1")

    assert len({event.invocation for event in ledger.of(ToolStarted)}) == 6


# -- what it does -----------------------------------------------------------------------------------


def test_a_result_names_arguments_and_a_new_nonce_each_time(ledger: Ledger) -> None:
    tool = behaving(ledger, result="{nonce} got {arguments}")

    first, second = tool(x="ü"), tool(x="ü")

    assert first.endswith(' got {"x": "ü"}')
    assert first[:7] != second[:7]


def test_a_result_is_padded_to_its_size_in_bytes(ledger: Ledger) -> None:
    tool = behaving(ledger, result="größe", size=100)

    assert len(tool(x="1").encode()) == 100


def test_a_tool_that_is_told_to_fail_raises_and_says_so(ledger: Ledger) -> None:
    spec = ToolSpec(name="pay", behaviour=Behaviour(does="raise", error="no funds"))
    tool = build_tool(spec, ledger)

    with pytest.raises(ToolFailed, match="no funds"):
        tool.run()
    with pytest.raises(ToolFailed, match="no funds"):
        asyncio.run(tool.arun())

    assert kinds(ledger) == ["ToolStarted", "ToolRaised"] * 2
    assert ledger.first(ToolRaised).error == "no funds"


def test_a_held_tool_returns_when_it_is_released(ledger: Ledger) -> None:
    tool = behaving(ledger, does="hold", limit=BOUND)
    threading.Thread(target=lambda: (wait_for(ledger, ToolStarted), tool.release())).start()

    assert tool(x="1").startswith("done")
    assert kinds(ledger) == ["ToolStarted", "ToolFinished"]


def test_a_held_tool_returns_at_its_limit(ledger: Ledger) -> None:
    tool = behaving(ledger, does="hold", limit=0.01)

    async def call() -> None:
        assert (await tool.arun(x="1")).startswith("done")

    assert tool(x="1").startswith("done")
    on_each_backend(call)


def test_an_awaited_tool_is_released_from_another_thread(ledger: Ledger) -> None:
    async def call() -> None:
        tool = behaving(ledger, does="hold", limit=BOUND)
        count = len(ledger.of(ToolStarted))
        threading.Thread(target=lambda: (wait_for(ledger, ToolStarted, count), tool.release())).start()
        assert (await tool.arun(x="1")).startswith("done")
        assert (await tool.arun(x="2")).startswith("done")  # not held any more

    on_each_backend(call)


def test_a_cancelled_tool_says_so_on_asyncio(ledger: Ledger) -> None:
    async def main() -> None:
        tool = behaving(ledger, does="hold", limit=BOUND)
        task = asyncio.create_task(tool.arun(x="1"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert kinds(ledger) == ["ToolStarted", "ToolCancelled"]
    assert not ledger.first(ToolCancelled).swallowed


def test_a_cancelled_tool_says_so_on_trio(ledger: Ledger) -> None:
    async def main() -> None:
        tool = behaving(ledger, does="hold", limit=BOUND)
        with trio.move_on_after(0.01) as scope:
            await tool.arun(x="1")
        assert scope.cancelled_caught

    trio.run(main)
    assert kinds(ledger) == ["ToolStarted", "ToolCancelled"]


def test_a_stubborn_tool_swallows_a_cancel_and_returns(ledger: Ledger) -> None:
    async def on_asyncio() -> None:
        tool = behaving(ledger, does="swallow-cancel", limit=BOUND)
        task = asyncio.create_task(tool.arun(x="1"))
        await asyncio.sleep(0)
        task.cancel()
        assert (await task).startswith("done")

    async def on_trio() -> None:
        tool = behaving(ledger, does="swallow-cancel", limit=BOUND)
        with trio.move_on_after(0.01) as scope:
            assert (await tool.arun(x="1")).startswith("done")
        assert not scope.cancelled_caught

    asyncio.run(on_asyncio())
    trio.run(on_trio)
    assert kinds(ledger) == ["ToolStarted", "ToolCancelled", "ToolFinished"] * 2
    assert all(event.swallowed for event in ledger.of(ToolCancelled))


def wait_for(ledger: Ledger, kind: Any, count: int = 0) -> None:
    deadline = time.monotonic() + BOUND
    while len(ledger.of(kind)) <= count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


# -- somebody's function ----------------------------------------------------------------------------


def send_money(to: str, *notes: str, amount: int | None = None, **more: Any) -> bool:
    """Send money.

    For good.
    """
    raise AssertionError("it must never run")


async def send_later(to: str) -> bool:
    """Send later."""
    raise AssertionError("it must never run")


def test_a_spied_function_keeps_its_looks_and_never_runs(ledger: Ledger) -> None:
    spy = spy_function(send_money, ledger)

    assert spy("me", "a", "b", amount=3, urgent=True).startswith("done")
    assert spy.name == spy.__name__ == "send_money"
    assert spy.description == "Send money."
    assert inspect.getdoc(spy.run) == inspect.getdoc(send_money)
    assert list(inspect.signature(spy).parameters) == ["to", "notes", "amount", "more"]
    assert inspect.signature(spy).parameters["amount"].annotation == (int | None)
    assert spy.parameters == {
        "type": "object",
        "properties": {"to": {"type": "string"}, "amount": {"type": ["integer", "null"]}},
        "required": ["to"],
    }
    assert spy.calls[0].arguments == {"to": "me", "notes": ("a", "b"), "amount": 3, "urgent": True}


async def test_a_spied_async_function_is_awaited(ledger: Ledger) -> None:
    spy = spy_function(send_later, ledger)

    assert (await spy(to="me")).startswith("done")
    assert kinds(ledger) == ["ToolStarted", "ToolFinished"]


# -- other processes --------------------------------------------------------------------------------


@pytest.fixture
def shared(ledger: Ledger, tmp_path: Path) -> SpiedTool:
    across = AcrossProcesses(ledger, tmp_path / "journal")
    ledger.also_read(across.entries)
    return build_tool(RECORD, across)


def test_a_forked_child_s_call_reaches_the_ledger(ledger: Ledger, shared: SpiedTool) -> None:
    shared(x="here")
    pid = os.fork()
    if pid == 0:
        shared(x="child")
        os._exit(0)
    os.waitpid(pid, 0)

    assert [call.arguments for call in shared.calls] == [{"x": "here"}, {"x": "child"}]
    assert [event.arguments["x"] for event in ledger.of(ToolStarted)] == ["here", "child"]
    assert len({event.invocation for event in ledger.of(ToolStarted)}) == 2


def test_a_spawned_child_s_call_reaches_the_ledger(ledger: Ledger, shared: SpiedTool) -> None:
    process = multiprocessing.get_context("spawn").Process(target=shared, args=("spawned",))
    process.start()
    process.join(BOUND)

    assert process.exitcode == 0
    assert [call.arguments for call in shared.calls] == [{"x": "spawned"}]
    assert kinds(ledger) == ["ToolStarted", "ToolFinished"]


def test_calls_of_another_spy_in_a_child_are_not_listed(shared: SpiedTool) -> None:
    other = build_tool(RECORD, shared._recorder)
    pid = os.fork()
    if pid == 0:
        other(x="child")
        os._exit(0)
    os.waitpid(pid, 0)

    assert shared.calls == []
    assert len(other.calls) == 1


def test_a_pickled_spy_keeps_its_looks_and_its_behaviour(tmp_path: Path) -> None:
    shared = behaving(AcrossProcesses(None, tmp_path / "journal"), result="ok")
    copy = pickle.loads(pickle.dumps(shared))

    assert inspect.signature(copy) == inspect.signature(shared)
    assert copy.__doc__ == shared.__doc__
    assert copy(x="1") == "ok"


class Hostile:
    """Whatever is asked of it, it raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise SystemExit("no repr")


class HostileInt(int):
    def __int__(self) -> int:
        raise RuntimeError("no int")


class HostileDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class HostileList(list[Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("no members")


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (Hostile(), "<Hostile without a repr>"),
        (HostileInt(3), 3),
        (HostileDict(a=1), {"a": 1}),
        (HostileList([1]), [1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_argument_keeps_a_call_from_being_recorded(ledger: Ledger, value: Any, recorded: Any) -> None:
    spy = build_tool(RECORD, ledger)
    spy.run(x=value)
    assert [start.arguments for start in ledger.of(ToolStarted)] == [{"x": recorded}]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_spy_is_the_spy(ledger: Ledger, copied: Callable[[Any], Any]) -> None:
    spy = build_tool(RECORD, ledger)
    copied({"tools": [spy]})["tools"][0].run(x="1")
    assert copied(spy) is spy
    assert [call.arguments for call in spy.calls] == [{"x": "1"}]


def test_a_default_that_json_lacks_stays_out_of_the_schema(ledger: Ledger) -> None:
    def tool(path: object = object(), ratio: float = float("nan"), times: int = 2) -> None: ...

    assert spy_function(tool, ledger).parameters["properties"] == {
        "path": {},
        "ratio": {"type": "number"},
        "times": {"type": "integer", "default": 2},
    }
