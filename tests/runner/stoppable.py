"""Agents that are told to stop. What one of them makes of it is the prompt of its job."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

from pytest_agentguard import Adapter, FetchJob, RunEnd

LONG = 60.0
_stopped = threading.Event()


async def arun(job: Any) -> Any:
    """On asyncio."""
    tool = job.tools[0]
    try:
        await tool.arun(x="1")
        await asyncio.sleep(LONG)
    except asyncio.CancelledError:
        if job.prompt == "swallow":
            return "as if nothing had happened"
        if job.prompt == "another error":
            raise RuntimeError("timed out") from None
        if job.prompt == "clean up":
            await tool.arun(x="2")
        raise
    return "done"


async def trio_run(job: Any) -> Any:
    """On trio."""
    import trio

    tool = job.tools[0]
    try:
        await tool.arun(x="1")
        await trio.sleep(LONG)
    except trio.Cancelled:
        if job.prompt == "another error":
            raise RuntimeError("timed out") from None
        raise
    return "done"


def run(job: Any) -> Any:
    """In a thread, stopped by SIGINT."""
    tool = job.tools[0]
    try:
        tool.run(x="1")
        time.sleep(LONG)
    except KeyboardInterrupt:
        if job.prompt == "swallow":
            return "as if nothing had happened"
        raise
    return "done"


def polite(job: Any) -> Any:
    """In a thread, stopped by its adapter."""
    job.tools[0].run(x="1")
    return RunEnd(how="cancelled") if _stopped.wait(LONG) else "done"


def _kept(job: Any) -> str:
    return f"kept of {job.prompt}"


def fetch(job: FetchJob) -> Any:
    """A tool that says what it is asked for, and hangs, fails or says much."""

    async def call(case: str) -> str:
        match case:
            case "hang":
                await asyncio.sleep(LONG)
            case "fail":
                raise PermissionError(case)
            case "much":
                return "x" * 10_000
        return f"{case} of {sorted(job.allowed)} with {job.token}"

    return call


def sync_fetch(job: FetchJob) -> Any:
    """The same in threads."""

    def call(case: str) -> str:
        match case:
            case "hang":
                time.sleep(LONG)
            case "fail":
                raise PermissionError(case)
            case "much":
                return "x" * 10_000
        return f"{case} of {sorted(job.allowed)} with {job.token}"

    return call


def trio_fetch(job: FetchJob) -> Any:
    """The same on trio."""
    import trio

    async def call(case: str) -> str:
        match case:
            case "hang":
                await trio.sleep(LONG)
            case "fail":
                raise PermissionError(case)
            case "much":
                return "x" * 10_000
        return f"{case} of {sorted(job.allowed)} with {job.token}"

    return call


def deaf(job: FetchJob) -> Any:
    """A tool that does something to SIGINT, or to what we need to cancel it, and then takes its time."""

    def own(*signal_and_frame: object) -> None:
        raise RuntimeError("the user pressed a key")

    def call(case: str) -> str:
        match case:
            case "ignores":
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            case "has its own":
                signal.signal(signal.SIGINT, own)
            case "blocks":
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            case "replaces":
                for module, name in ((socket, "socket"), (json, "loads"), (signal, "pthread_kill")):
                    setattr(module, name, _fails)
            case "closes":
                os.closerange(3, 4096)
                return "closed"
        time.sleep(1.5)
        return "as if nothing had happened"

    return call


def _fails(job: Any) -> None:
    raise RuntimeError("cannot be cancelled")


def _never_answers(job: Any) -> Any:
    time.sleep(LONG)


async def _later(job: Any) -> str:
    return "kept a moment later"


def _cancelled_by(cancel: Any) -> Adapter:
    return Adapter(name="deaf", run=run, fetch=deaf, surfaces=_BOTH, cancel=cancel)


_BOTH = ("chat", "fetch")
ASYNCIO = Adapter(name="asyncio", run=arun, kept=_kept, fetch=fetch, surfaces=_BOTH)
TRIO = Adapter(name="trio", run=trio_run, backend="trio", fetch=trio_fetch, surfaces=_BOTH)
SYNC = Adapter(name="sync", run=run, fetch=sync_fetch, surfaces=_BOTH)
POLITE = Adapter(name="polite", run=polite, cancel=lambda job: _stopped.set())

DEAF = Adapter(name="deaf", run=run, fetch=deaf, surfaces=_BOTH)
RAISES = _cancelled_by(_fails)
HANGS = _cancelled_by(_never_answers)
EXITS = _cancelled_by(lambda job: sys.exit(1))
KEEPS = {
    "raises": _fails,
    "exits": lambda job: sys.exit(1),
    "hangs": _never_answers,
    "bytes": lambda job: b"kept",
    "nothing": lambda job: None,
    "empty": lambda job: "",
    "later": _later,
}
for _name, _keeps in KEEPS.items():
    globals()[f"ASYNCIO_{_name}"] = Adapter(name=_name, run=arun, kept=_keeps)
    globals()[f"SYNC_{_name}"] = Adapter(name=_name, run=run, kept=_keeps)
PLAIN_IN_ASYNCIO = Adapter(name="mixed", run=arun, fetch=deaf, surfaces=_BOTH)
PLAIN_IN_TRIO = Adapter(name="mixed", run=trio_run, backend="trio", fetch=deaf, surfaces=_BOTH)
ASYNCIO_IN_PLAIN = Adapter(name="mixed", run=run, fetch=fetch, surfaces=_BOTH)
TRIO_IN_PLAIN = Adapter(name="mixed", run=run, backend="trio", fetch=trio_fetch, surfaces=_BOTH)
