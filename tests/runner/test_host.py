"""A host starts one agent, says what it offers, and leaves nothing behind, whoever dies."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from runs import HERE, Run, order

from pytest_agentguard import UsageError
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard.events import LeftBehind, RunEnded, RunStarted

BOUND = 10.0


def wait_until_dead(pids: list[int]) -> None:
    """Bounded; a zombie is dead, it only waits for its parent."""
    deadline = time.monotonic() + BOUND
    for pid in pids:
        while alive(pid):
            assert time.monotonic() < deadline, f"pid={pid} is alive"
            with contextlib.suppress(OSError):
                watched = os.pidfd_open(pid)
                select.select([watched], [], [], 0.1)
                os.close(watched)


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def below(pid: int) -> list[int]:
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]


def wait_for_start(run: Run) -> None:
    deadline = time.monotonic() + BOUND
    while not run.journal.exists() or not run.ledger.of(RunStarted):
        assert time.monotonic() < deadline, "the run did not start"
        time.sleep(0.005)


def agent(folder: Path, text: str) -> AgentHost:
    (folder / "mine.py").write_text(text)
    return AgentHost("mine.py:run", root=folder, import_seconds=5.0)


def test_hello_says_what_a_function_offers(host: AgentHost) -> None:
    hello = host.hello()

    assert hello.name == "adversaries.py:run"
    assert (hello.error, hello.plain, hello.fresh, hello.version) == ("", True, False, "")


def test_hello_says_what_an_adapter_offers() -> None:
    with AgentHost("adversaries.py:declared", root=HERE) as host:
        hello = host.hello()

    assert (hello.name, hello.plain) == ("declared", False)
    assert hello.versions == {"pytest": pytest.__version__}
    assert hello.version == pytest.__version__


def test_a_module_is_imported_from_the_root() -> None:
    with AgentHost("adversaries:run", root=HERE) as host:
        assert host.hello().error == ""


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("adversaries:missing", "agent 'adversaries:missing': adversaries has no 'missing'"),
        ("adversaries:number", "agent 'adversaries:number' is neither a function nor an Adapter: it is int"),
        ("adversaries:Path", "agent 'adversaries:Path': adversaries has no 'Path'"),
        ("missing.py:run", f"agent 'missing.py:run': there is no file '{HERE / 'missing.py'}'"),
        ("no_such_module:run", "agent 'no_such_module:run': there is no module 'no_such_module'"),
        ("adversary:run", "there is no module 'adversary'; did you mean 'adversaries'?"),
        ("adversaries:rum", "adversaries has no 'rum'; did you mean 'run'?"),
        ("json.decode:run", "there is no module 'json.decode'; did you mean 'decoder'?"),
        ("no-such-agent", "unknown agent 'no-such-agent'"),
    ],
)
def test_an_agent_that_cannot_be_found_is_named(spec: str, error: str) -> None:
    with AgentHost(spec, root=HERE) as host:
        assert error in host.hello().error.splitlines()[-1]


def test_a_root_that_is_no_folder_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        AgentHost("mine.py:run", root=tmp_path / "missing")


def test_an_import_error_comes_with_its_traceback_and_runs_get_it(tmp_path: Path) -> None:
    with agent(tmp_path, "def helper():\n    raise ValueError('broken')\nhelper()\n") as host:
        error = host.hello().error
        run = Run(host, order(tmp_path, "hello"))
        end = run.finish().end

    assert "in helper" in error
    assert error.splitlines()[-1] == "ValueError: broken"
    assert (end.how, run.told) == ("exited", [""])
    assert "ValueError: broken" in run.receipt.error


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("import os\nos._exit(5)", "exit status 5"),
        ("import os\nos.kill(os.getpid(), 9)", "signal SIGKILL"),
        ("import ctypes\nctypes.string_at(0)", "signal SIGSEGV"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_an_import_that_ends_its_process_says_how(tmp_path: Path, text: str, how: str) -> None:
    with agent(tmp_path, text) as host:
        assert host.hello().error.splitlines()[-1].endswith(how)


_WRITES = """
import os, stat
for number in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            os.write(number, {!r})
    except OSError:
        continue
"""


@pytest.mark.parametrize("garbage", [b"hello\n", b"[]\n", b'{"hello": 42}\n', b'{"hello": {}}\n', b"\xff\n"])
def test_garbage_that_an_import_writes_to_its_host_is_an_error_at_once(
    tmp_path: Path, garbage: bytes
) -> None:
    with agent(tmp_path, _WRITES.format(garbage)) as host:
        assert "wrote into the runner's socket" in host.hello().error
        run = Run(host, order(tmp_path, "hello"))
        assert run.finish().end.how == "exited"


@pytest.mark.parametrize(
    "line",
    [
        "import json; json.dumps = lambda *args, **options: '42'",
        "import sys; sys.stdout = sys.stderr = None",
        "import socket; socket.socket = None",
        "import time; time.monotonic = time.sleep = None",
    ],
)
def test_an_import_may_replace_what_the_runner_needs(tmp_path: Path, line: str) -> None:
    with agent(tmp_path, f"{line}\ndef run(job): return 'done'") as host:
        assert host.hello().error == ""
        assert Run(host, order(tmp_path, "hello")).finish().end.answer == "done"


def test_what_an_import_prints_is_shown_when_it_dies(tmp_path: Path) -> None:
    with agent(tmp_path, "import os\nprint('last words')\nos._exit(1)") as host:
        assert host.hello().error.splitlines()[0] == "last words"


def test_an_import_that_hangs_is_ended(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import time\ntime.sleep(60)")
    with AgentHost("mine.py:run", root=tmp_path, import_seconds=0.5) as host:
        assert host.hello().error == "the import of 'mine.py:run' took longer than import_seconds=0.5"
        wait_until_dead([host._process.pid])


def test_an_import_that_leaves_threads_is_done_anew_for_each_run(tmp_path: Path) -> None:
    text = """
import os, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
imported_in = os.getpid()
def run(job):
    return f"{imported_in == os.getpid()} {threading.active_count()}"
"""
    with agent(tmp_path, text) as host:
        assert host.hello().fresh
        ends = [Run(host, order(tmp_path, "hello", watch=0.0)).finish().end for _ in range(2)]

    assert [end.answer for end in ends] == ["True 2", "True 2"]


def test_an_import_that_fails_only_in_the_run_ends_that_run(tmp_path: Path) -> None:
    text = """
import os, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
if os.path.exists("again"):
    raise ValueError("not twice")
run = len
"""
    with agent(tmp_path, text) as host:
        assert host.hello().fresh
        (tmp_path / "again").touch()
        run = Run(host, order(tmp_path, "hello"))
        end = run.finish().end

    assert (end.how, end.code) == ("exited", 70)
    assert run.receipt.stderr.splitlines()[-1] == "ValueError: not twice"


def test_real_keys_and_proxies_do_not_reach_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    monkeypatch.setenv("MY_SECRET", "real")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    with AgentHost("adversaries.py:run", root=HERE) as host:
        answer = Run(host, order(tmp_path, "environment", env={"GIVEN": "1"})).finish().end.answer

    assert answer == "['*', None, 'agentguard-dummy-key', 'agentguard-dummy-key', None, '1']"


def test_32_runs_overlap(host: AgentHost, tmp_path: Path) -> None:
    held = [Run(host, order(tmp_path, "hang", seconds=3.0)) for _ in range(32)]
    for run in held:
        wait_for_start(run)  # all of them go on before the first one has ended
    assert not any(run.handle.done() for run in held)
    assert {run.finish().end.how for run in held} == {"killed"}


def test_a_callback_that_raises_is_named_in_the_receipt(host: AgentHost, tmp_path: Path) -> None:
    def fail(lane: str) -> None:
        raise ValueError("from the callback")

    receipt = host.start(order(tmp_path, "hello"), fail).wait()

    assert receipt.error == "on_ended('') raised ValueError: from the callback"


def test_close_ends_runs_that_go_on_and_everything_below_them(tmp_path: Path) -> None:
    host = AgentHost("adversaries.py:run", root=HERE)
    run = Run(host, order(tmp_path, "hang"))
    wait_for_start(run)
    pids = [host._process.pid, *below(host._process.pid)]

    host.close()

    assert len(pids) == 3
    wait_until_dead(pids)
    assert run.finish().end.how == "killed"
    assert run.told == [""]


def test_a_run_after_close_gets_a_receipt_with_an_error(tmp_path: Path) -> None:
    host = AgentHost("adversaries.py:run", root=HERE)
    host.hello()
    host.close()
    host.close()

    run = Run(host, order(tmp_path, "hello"))

    assert run.finish().end.how == "exited"
    assert run.receipt.error == "the host is closed"


def test_runs_outlive_the_warm_parent_and_later_ones_are_told(tmp_path: Path) -> None:
    with AgentHost("adversaries.py:run", root=HERE) as host:
        going_on = Run(host, order(tmp_path, "hang", seconds=1.0))
        wait_for_start(going_on)
        host._process.kill()
        host._process.wait()
        later = Run(host, order(tmp_path, "hello"))

        assert later.finish().end.how == "exited"
        assert later.receipt.error == "the warm parent is gone"
        assert later.told == [""]
        assert going_on.finish().end.how == "killed"


def test_a_daemon_whose_supervisor_was_killed_is_ended(host: AgentHost, tmp_path: Path) -> None:
    before = set(below(host._process.pid))
    run = Run(host, order(tmp_path, "leave a daemon and kill its parent"))

    assert run.finish().end.how == "signalled"
    assert set(below(host._process.pid)) <= before


_HOST = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
from runs import Run, order
from test_host import below, wait_for_start
from pytest_agentguard._runner.host import AgentHost
host = AgentHost({spec!r}, root=Path({root!r}))
if {prompt!r}:
    run = Run(host, order(Path({folder!r}), {prompt!r}))
    wait_for_start(run)
print(host._process.pid, *below(host._process.pid), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("prompt", ["hang", "ignore signals and hang", "stop itself", ""])
def test_nothing_outlives_a_killed_pytest(tmp_path: Path, prompt: str) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)")
    spec, root = ("adversaries.py:run", HERE) if prompt else ("slow.py:run", tmp_path)
    program = _HOST.format(here=str(HERE), spec=spec, root=str(root), folder=str(tmp_path), prompt=prompt)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)

    assert len(pids) == (3 if prompt else 1)
    wait_until_dead(pids)


def test_facts_of_a_closed_host_name_no_leftovers(tmp_path: Path) -> None:
    host = AgentHost("adversaries.py:run", root=HERE)
    run = Run(host, order(tmp_path, "leave a child", watch=5.0))
    wait_for_start(run)
    host.close()

    ledger = run.finish()

    assert len(ledger.of(RunEnded)) == 1
    assert ledger.of(LeftBehind) == ()
