"""The fixtures ``agentguard``, ``sse_endpoint`` and ``tool_spy``, used as somebody else's suite uses them."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable
from typing import Any, Literal

import anyio
import httpx
import pytest
from plugin.conftest import Suite

from pytest_agentguard import Outcome, Reply, UsageError, catalogue, judge
from pytest_agentguard.events import (
    RunStarted,
    StreamEnded,
    StreamReleased,
    ToolCancelled,
    ToolMiscalled,
    ToolStarted,
    Witness,
)

RULE = "no-tool-on-incomplete-stream"


class Broken(Exception):
    """What the agents of these tests raise."""


BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
CLIENT: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 20}


def url_of(endpoint: Any) -> str:
    """Where a chat completion is asked for."""
    return str(endpoint.base_url("openai-chat")) + "/chat/completions"


def ask(endpoint: Any) -> str:
    """The smallest client: one request, the whole body or ``Broken``."""
    text = httpx.post(url_of(endpoint), json=BODY, **CLIENT).text
    if "[DONE]" not in text:
        raise Broken(f"{len(text)} characters and no end")
    return text


# -- agentguard ---------------------------------------------------------------------------------------


def cut_and_run_tool(guard: Any) -> None:
    from pytest_agentguard.events import CallOffered

    call = {"witness": Witness.ENDPOINT, "stream": "s1", "call": "s1.c1", "tool": "pay"}
    guard.ledger.record(CallOffered, arguments='{"to": "k1"}', nonce="k1", **call)
    guard.ledger.record(StreamEnded, witness=Witness.ENDPOINT, stream="s1", complete=False, begun=("s1.c1",))
    guard.ledger.record(ToolStarted, witness=Witness.TOOL_SPY, tool="pay", arguments={"to": "k1"})


def test_check_raises_with_the_rendered_violation(agentguard: Any) -> None:
    cut_and_run_tool(agentguard)
    with pytest.raises(AssertionError) as caught:
        agentguard.check(RULE)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{RULE} violated"
    assert "    #3  tool-spy    ToolStarted   call=s1.c1 tool=pay stream=s1" in str(caught.value)
    assert lines[-1].startswith("  rerun: pytest ")
    assert lines[-1].endswith("test_check_raises_with_the_rendered_violation")


def test_check_raises_when_nothing_was_exercised_unless_allowed(agentguard: Any) -> None:
    with pytest.raises(AssertionError, match=f"{RULE} not exercised"):
        agentguard.check(RULE)
    assert agentguard.check(RULE, allow_not_exercised=True).outcome == "not exercised"


def test_check_of_an_unknown_rule_names_the_nearest(agentguard: Any) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{RULE}'"):
        agentguard.check("no-tool-on-incomplete-strem")


def test_story_tells_every_fact(agentguard: Any) -> None:
    cut_and_run_tool(agentguard)
    lines = agentguard.story().splitlines()
    assert lines[0] == "ledger events=3"
    assert [line.split()[2] for line in lines[1:]] == ["CallOffered", "StreamEnded", "ToolStarted"]


def test_run_that_returns_is_recorded_with_its_answer(agentguard: Any) -> None:
    with agentguard.run(final="k1") as run:
        run.answer("it is k1")
    end = agentguard.ledger.end
    assert (end.how, end.answer, agentguard.ledger.run.final) == ("returned", "it is k1", "k1")


def test_run_that_raises_is_recorded_and_the_exception_goes_on(agentguard: Any) -> None:
    with pytest.raises(Broken, match="x"), agentguard.run():
        try:
            raise KeyError("why")
        except KeyError as cause:
            raise Broken("x" * 1000) from cause
    end = agentguard.ledger.end
    assert end.how == "raised"
    assert end.error_type == f"{__name__}.Broken"
    assert end.error_chain == (f"{__name__}.Broken", "builtins.KeyError")
    assert end.error == "x" * 300 + "… (1000 characters)"


def test_run_that_nobody_says_the_end_of_is_invalid_and_says_what_to_do(agentguard: Any) -> None:
    with (
        pytest.raises(UsageError, match=r"with pytest\.raises\(Error\), agentguard\.run\(\), in this order"),
        agentguard.run(final="k1"),
        pytest.raises(Broken),  # the wrong order: the run does not see it
    ):
        raise Broken("as it should")
    assert agentguard.ledger.end is None
    verdict = judge(agentguard.ledger, catalogue.invariant("no-success-on-non-stream"))
    assert (verdict.outcome, "run.answer(text)" in verdict.summary) == (Outcome.INVALID, True)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_cancelled_run_is_recorded_as_cancelled(agentguard: Any, anyio_backend: str) -> None:
    with anyio.CancelScope() as scope, agentguard.run():
        scope.cancel()
        await anyio.sleep_forever()
    assert agentguard.ledger.end.how == "cancelled"


@pytest.mark.agentguard(RULE, allow_not_exercised=True, attempts=3)
def test_run_adds_its_limits_to_those_of_the_marker(agentguard: Any, tool_spy: Any) -> None:
    from pytest_agentguard import Limits

    assert agentguard.ledger.run.limits == {"attempts": 3}
    with agentguard.run(limits=Limits(rounds=2)) as run:
        tool_spy.record(x="late")
        run.answer("")
    with agentguard.run() as run:
        run.answer("")
    first, second, third = agentguard.ledger.of(RunStarted)
    assert (first.limits, second.limits) == ({"attempts": 3}, {"attempts": 3, "rounds": 2})
    assert agentguard.ledger.run == third
    assert set(third.tools) == {"record"}


# -- sse_endpoint -------------------------------------------------------------------------------------


def test_whole_reply_reaches_the_client(sse_endpoint: Any) -> None:
    sse_endpoint.play(Reply().text("hello there"))
    assert "there" in ask(sse_endpoint)
    assert sse_endpoint.requests.count == 1


@pytest.mark.agentguard(RULE)
def test_cut_stream_deletes_nothing(sse_endpoint: Any, tool_spy: Any) -> None:
    delete = tool_spy("delete_file", path=str)
    sse_endpoint.play(Reply().call(delete, path="/srv/data").cut())
    with pytest.raises(Broken):
        ask(sse_endpoint)
    assert delete.calls == []


def test_what_the_client_saw_is_recorded_before_a_check(sse_endpoint: Any, agentguard: Any) -> None:
    for n in range(20):
        sse_endpoint.play(Reply().call("pay", to="{nonce}").cut())
        with pytest.raises(Broken):
            ask(sse_endpoint)
        agentguard.check(RULE)
        assert len(agentguard.ledger.of(StreamEnded)) == n + 1


def test_end_of_a_run_releases_what_is_held(sse_endpoint: Any, agentguard: Any) -> None:
    held = sse_endpoint.play(Reply().text("late").hold(limit=60))
    with agentguard.run() as run:
        thread = threading.Thread(target=ask, args=(sse_endpoint,))
        thread.start()
        assert held.received.wait(10)
        run.answer("")
    thread.join(10)
    released = agentguard.ledger.first(StreamReleased)
    assert released.by == "run-ended"
    assert released.seq > agentguard.ledger.end.seq


async def test_stop_button(sse_endpoint: Any) -> None:
    held = sse_endpoint.play(Reply().text("Let me think").hold())
    async with httpx.AsyncClient(**CLIENT) as client:
        task = asyncio.create_task(client.post(url_of(sse_endpoint), json=BODY))
        await held.received
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    held.release()
    assert sse_endpoint.requests.count == 1


@pytest.mark.anyio
async def test_signals_can_be_awaited_on_both_back_ends(sse_endpoint: Any) -> None:
    played = sse_endpoint.play(Reply().text("hello"))
    async with httpx.AsyncClient(**CLIENT) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: client.post(url_of(sse_endpoint), json=BODY))
        await played.received


SCRIPTS = {
    "unrequested": (
        "sse_endpoint.play(Reply().text('hello'))",
        "reply 1 ('hello', healthy) was scripted and never requested",
    ),
    "refused": (
        "sse_endpoint.play(Reply()); post(sse_endpoint, messages=[])",
        "request r1 was refused as by a provider: *",
    ),
    "unmatched": (
        "post(sse_endpoint)",
        "request r1 met no *",
    ),
}
HEAD = """
import httpx
from pytest_agentguard import Reply

def post(endpoint, **body):
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **body}
    url = endpoint.base_url("openai-chat") + "/chat/completions"
    httpx.post(url, json=body, timeout=30, trust_env=False, verify=False)

def test_it(sse_endpoint):
"""


@pytest.mark.parametrize("case", SCRIPTS)
def test_script_that_was_not_followed_fails_the_call_with_one_line(suite: Suite, case: str) -> None:
    line, message = SCRIPTS[case]
    result = suite(f"{HEAD}    {line}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*_ test_it _*", message], consecutive=True)


def test_optional_reply_and_unused_spy_are_fine(suite: Suite) -> None:
    body = "    sse_endpoint.play(Reply().text('hello').optional())\n"
    spies = "def test_other(tool_spy): tool_spy.record\n"
    suite(f"{HEAD}{body}\n{spies}").assert_outcomes(passed=2)


def test_call_that_ends_releases_what_is_held(suite: Suite) -> None:
    rest = """    held = sse_endpoint.play(Reply().text("hello").hold(limit=60))
    thread.append(threading.Thread(target=post, args=(sse_endpoint,)))
    thread[0].start()
    assert held.received.wait(10)

import threading
import pytest

@pytest.fixture
def thread():
    made = []
    yield made
    made[0].join(10)  # before the endpoint is closed; nobody but the end of the call releases it
    assert not made[0].is_alive()
"""
    head = HEAD.replace("test_it(sse_endpoint)", "test_it(sse_endpoint, thread)")
    suite(head + rest).assert_outcomes(passed=1)


def test_predicate_that_never_returns_fails_its_test_alone(suite: Suite) -> None:
    ran = suite(
        """
        import socket
        import threading

        import pytest

        from pytest_agentguard import Reply
        from pytest_agentguard._witnesses.engine import Engine

        @pytest.fixture
        def stuck(monkeypatch):
            free = threading.Event()
            for waits in (Engine.run, Engine.settle):
                monkeypatch.setitem(waits.__kwdefaults__, "limit", 0.2)
            yield free
            free.set()

        def test_it(sse_endpoint, stuck):
            sse_endpoint.play(Reply().text("x").on(matches=lambda request: stuck.wait(5)))
            with socket.create_connection(("127.0.0.1", sse_endpoint.port)) as client:
                client.sendall(b"POST /v1/messages HTTP/1.1\\r\\nHost: x\\r\\n")
                client.sendall(b"Content-Length: 2\\r\\n\\r\\n{}")
        """,
    )
    ran.stdout.fnmatch_lines(["*not judged: the engine did not answer within limit=0.2 s*"])


def test_engine_that_fails_leaves_a_test_unjudged_and_the_next_one_gets_another(suite: Suite) -> None:
    ran = suite(
        """
        import sys

        import httpx
        import pytest

        @pytest.mark.agentguard("no-request-past-budget", attempts=1)
        @pytest.mark.parametrize("fails", [True, False])
        def test_it(counting_server, fails):
            route = counting_server.route("/x")
            httpx.get(route.url, trust_env=False)
            if fails:
                counting_server._engine.call(sys.exit)
                counting_server._engine._thread.join(5)
        """
    )
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["*not judged: the engine has failed: SystemExit*"])


def test_engine_serves_all_tests_and_ends_with_the_session(suite: Suite) -> None:
    result = suite(
        """
        import threading

        import pytest

        seen = set()

        @pytest.mark.parametrize("n", range(3))
        def test_it(sse_endpoint, n):
            sse_endpoint.settle()
            seen.update(t for t in threading.enumerate() if t.name == "agentguard-engine" and t not in BEFORE)
            assert len(seen) == 1

        BEFORE = set(threading.enumerate())
        """
    )
    result.assert_outcomes(passed=3)


def test_blocked_sockets_are_explained(suite: Suite) -> None:
    result = suite("def test_it(sse_endpoint): pass", "--disable-socket")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["E   *sse_endpoint listens on 127.0.0.1*add --allow-hosts=127.0.0.1 to --disable-socket"]
    )


def test_endpoint_works_where_only_loopback_is_allowed(suite: Suite) -> None:
    body = "    sse_endpoint.play(Reply().text('hello'))\n"
    post = "    post(sse_endpoint)\n"
    result = suite(f"{HEAD}{body}{post}", "--disable-socket", "--allow-hosts=127.0.0.1")
    result.assert_outcomes(passed=1)


# -- tool_spy -----------------------------------------------------------------------------------------


def test_spy_from_types_has_a_real_signature(tool_spy: Any) -> None:
    remove = tool_spy("remove_all", path=str, dry_run=False, description="Remove it.")
    assert remove.parameters["required"] == ["path"]
    assert remove.parameters["properties"]["dry_run"] == {"type": "boolean", "default": False}
    remove(path="/srv")
    assert [call.arguments for call in remove.calls] == [{"path": "/srv"}]


def test_spy_of_a_function_takes_its_signature_and_never_runs_it(tool_spy: Any) -> None:
    def launch(target: str, mode: Literal["dry", "hot"] = "dry") -> str:
        """Launch it."""
        raise AssertionError("the function ran")

    spy = tool_spy(launch)
    spy.run("x", mode="hot")
    assert spy.description == "Launch it."
    assert [call.arguments for call in spy.calls] == [{"target": "x", "mode": "hot"}]


def test_spy_takes_a_json_schema(tool_spy: Any, agentguard: Any) -> None:
    schema = {"type": "object", "properties": {"hold": {"type": "string"}}, "required": ["hold"]}
    spy = tool_spy("grip", parameters=schema)
    spy(hold="tight")
    with pytest.raises(TypeError, match=r"grip\(\)"):
        spy(loose=True)
    assert len(agentguard.ledger.of(ToolMiscalled)) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"returns": "plain"}, "plain"),
        ({"returns": {"n": 1}}, '{"n": 1}'),
        ({"returns": "{arguments}"}, '{"x": "1"}'),
        ({"returns": "ab", "size": 5}, "ab..."),
    ],
)
def test_spy_returns_what_it_is_told(tool_spy: Any, options: dict[str, Any], expected: str) -> None:
    assert tool_spy("look", x=str, **options)(x="1") == expected


def test_spy_raises_what_it_is_told(tool_spy: Any) -> None:
    with pytest.raises(RuntimeError, match="disk full"):
        tool_spy("write", raises="disk full")()


def test_results_carry_a_nonce_that_is_new_every_time(tool_spy: Any) -> None:
    first, second = tool_spy.record(x="1"), tool_spy.record(x="1")
    assert first != second
    assert first.startswith("done k")


async def called(spy: Any) -> None:
    async with asyncio.timeout(10):
        while not spy.calls:
            await asyncio.sleep(0)


async def test_held_spy_can_be_cancelled(tool_spy: Any, agentguard: Any) -> None:
    slow = tool_spy("slow", hold=True)
    task = asyncio.create_task(slow.arun())
    await called(slow)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agentguard.ledger.first(ToolCancelled).swallowed is False


async def test_spy_may_swallow_a_cancel(tool_spy: Any, agentguard: Any) -> None:
    slow = tool_spy("slow", swallow_cancel=True, returns="all the same")
    task = asyncio.create_task(slow.arun())
    await called(slow)
    task.cancel()
    assert await task == "all the same"
    assert agentguard.ledger.first(ToolCancelled).swallowed is True


@pytest.mark.parametrize("name", ["record", "purge", "shell", "remove"])
def test_standard_tools_are_made_once(tool_spy: Any, name: str) -> None:
    assert getattr(tool_spy, name).name == name
    assert getattr(tool_spy, name) is getattr(tool_spy, name)


def test_call_in_a_child_process_is_seen(tool_spy: Any, agentguard: Any) -> None:
    child = multiprocessing.get_context("spawn").Process(target=tool_spy.record, kwargs={"x": "far"})
    child.start()
    child.join(30)
    assert [call.arguments for call in tool_spy.record.calls] == [{"x": "far"}]
    assert agentguard.ledger.first(ToolStarted).arguments == {"x": "far"}


MISUSES: dict[str, Callable[[Any], Any]] = {
    "takes a tool's name or a function, not 7": lambda spy: spy(7),
    "takes parameters and description from the function": lambda spy: spy(ask, x=str),
    "takes parameters= or a type for each parameter": lambda spy: spy("a", parameters={}, x=str),
    "goes with no other behaviour": lambda spy: spy("a", raises="no", hold=True),
    "takes the message of the error": lambda spy: spy("a", raises=ValueError("no")),
    "takes a tool's name, not ''": lambda spy: spy(""),
    "takes a function with a signature: no signature found": lambda spy: spy(dict),
    "parameter 'x' has a default that JSON lacks: <object": lambda spy: spy("a", x=object()),
    "has made a tool named 'a' in this test already": lambda spy: (spy("a"), spy("a")),
}


@pytest.mark.parametrize("message", MISUSES)
def test_wrong_use_of_tool_spy_is_said_at_once(tool_spy: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        MISUSES[message](tool_spy)
    assert message in str(caught.value)
