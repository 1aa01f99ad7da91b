"""``nothing-left-behind`` on a test: its body is watched, and each thing that it leaves is named."""

from __future__ import annotations

import anyio  # noqa: F401 - these are loaded once, out here, as in conftest
import httpx  # noqa: F401
import pytest
import trio  # noqa: F401
from plugin.conftest import Suite

from pytest_agentguard import Invariant, Ledger, Level, judge, reading  # noqa: F401
from pytest_agentguard._witnesses import counting_server, endpoint, leaks  # noqa: F401

HEAD = """
import asyncio, socket, subprocess, sys, tempfile, threading, time
import pytest
pytestmark = pytest.mark.agentguard("nothing-left-behind")
kept = []
"""
SLEEP = '[sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"]'

LEAKS = {
    "task": """
async def poll():
    await asyncio.sleep(60)

async def test_it():
    kept.append(asyncio.create_task(poll(), name="poller"))
""",
    "thread": """
def test_it():
    threading.Thread(target=time.sleep, args=(1.5,), name="sleeper").start()
""",
    "listener": """
@pytest.fixture(autouse=True)
def closing():
    yield
    getattr(kept.pop(), "close", int)()

def test_it():
    kept.append(socket.create_server(("127.0.0.1", 0)))
""",
    "temporary": """
def test_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tempfile.mkdtemp(prefix="scratch-")
""",
}


@pytest.mark.parametrize(
    ("kind", "what", "place"),
    [
        ("task", "poller: poll", "test_suite.py:6 in poll"),
        ("thread", "sleeper", ""),
        ("listener", "listening on 127.0.0.1:*", "test_suite.py:12 in test_it"),
        ("temporary", "scratch-*", "test_suite.py:8 in test_it"),
    ],
)
def test_what_a_test_leaves_behind_fails_it(suite: Suite, kind: str, what: str, place: str) -> None:
    result = suite(HEAD + LEAKS[kind])

    result.assert_outcomes(failed=1)
    made = f" created={place}" if place else ""
    lines = [f"  left behind kind={kind} what={what}{made}", "  rerun: pytest *::test_it"]
    result.stdout.fnmatch_lines(["nothing-left-behind violated", *lines])


def test_a_child_process_is_named_with_its_command(suite: Suite) -> None:
    source = f"""
@pytest.fixture(autouse=True)
def ending():
    yield
    kept[0].kill()
    kept[0].wait()

def test_it():
    kept.append(subprocess.Popen({SLEEP}))
"""
    result = suite(HEAD + source)

    result.assert_outcomes(failed=1)
    told = " ".join(result.stdout.str().split())  # where a line breaks depends on the interpreter's path
    assert "left behind kind=process what=pid=" in told
    assert "time.sleep(60) created=test_suite.py:13 in test_it" in told


CLEAN = """
import httpx
import trio

def test_plain():
    pass

async def test_on_asyncio():
    await asyncio.to_thread(len, "four")
    kept.append(asyncio.create_task(asyncio.sleep(0.02)))

def test_on_trio():
    async def run():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, len, "four")
    trio.run(run)

@pytest.mark.anyio
def test_on_anyio():
    pass

def test_with_threads():
    threading.Thread(target=time.sleep, args=(0.05,)).start()
    threading.Thread(target=time.sleep, args=(1,), daemon=True).start()

def test_with_a_pooled_connection(counting_server):
    counting_server.route("/x")
    client = httpx.Client(trust_env=False, verify=False)
    kept.append(client)
    client.get(counting_server.root_url + "/x")
    counting_server.other_origin.route("/y")
    client.get(counting_server.other_origin.root_url + "/y")

def test_with_what_pytest_opens(tmp_path, capfd, caplog, request):
    with open(tmp_path / "x", "w") as file:
        print(file.name)
    subprocess.run([sys.executable, "-S", "-E", "-c", "print(1)"], check=True)
    request.getfixturevalue("sse_endpoint")

def test_clean_up():
    while kept:
        getattr(kept.pop(), "close", int)()
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_tests_that_leave_nothing_pass(suite: Suite, options: tuple[str, ...]) -> None:
    result = suite(HEAD + CLEAN, *options, subprocess=bool(options))

    result.assert_outcomes(passed=8)


def test_leaks_are_found_with_xdist(suite: Suite) -> None:
    result = suite(HEAD + LEAKS["task"] + LEAKS["listener"].replace("test_it", "test_other"), "-n", "2")

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines_random(["*kind=task*", "*kind=listener*"])


ANYIO = """
@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.mark.anyio
async def test_clean(anyio_backend):
    import anyio
    await anyio.sleep(0)
"""


def test_the_runner_of_anyio_is_no_leak(suite: Suite) -> None:
    suite(HEAD + ANYIO, "-o", "asyncio_mode=strict").assert_outcomes(passed=2)


def test_a_failure_of_its_own_keeps_its_local_variables_and_nothing_else(suite: Suite) -> None:
    source = """
@pytest.fixture(autouse=True)
def closing():
    yield
    kept.pop().close()

def test_it():
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=time.sleep, args=(1.5,), name="sleeper").start()
    kept.append(server)
    assert not server
"""
    result = suite(HEAD + source)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert not*", "  left behind kind=thread what=sleeper"])
    result.stdout.no_fnmatch_line("*kind=listener*")


def test_a_run_and_its_leftovers_are_in_one_story(suite: Suite) -> None:
    source = """
@pytest.fixture(autouse=True)
def closing():
    yield
    kept.pop().close()

def test_it(agentguard):
    with agentguard.run() as run:
        kept.append(socket.create_server(("127.0.0.1", 0)))
        run.answer("done")
"""
    result = suite(HEAD + source)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RunEnded*how=returned*", "*LeftBehind*kind=listener*"])


def test_only_tests_that_ask_for_it_are_watched(suite: Suite) -> None:
    source = """
def test_other(agentguard):
    kept.append(threading.Thread(target=time.sleep, args=(0.5,)))
    kept[0].start()
    assert not list(agentguard.ledger)
"""
    suite(HEAD.replace("pytestmark =", "unused =") + source).assert_outcomes(passed=1)
