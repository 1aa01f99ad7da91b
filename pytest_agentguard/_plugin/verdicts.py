"""Draws the verdicts of a test when its call ends; registered only where something of ours is used."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_agentguard._plugin.fixtures import LEFTOVERS, AgentGuard
from pytest_agentguard._plugin.marker import asked
from pytest_agentguard._plugin.session import guard_of, opening

if TYPE_CHECKING:

    class Failed(BaseException):
        """What ``pytest.fail`` raises, which has no public type."""

        def __init__(self, message: str, *, pytrace: bool) -> None: ...

else:
    Failed = pytest.fail.Exception

_NAME = "agentguard-verdicts"
_OWN_ENDS = (pytest.skip.Exception, pytest.xfail.Exception)


class AgentguardFailed(Failed, AssertionError):
    """A rule was broken, was not exercised or could not be judged, or a script was not followed."""

    __module__ = "builtins"  # as pytest's own outcomes: reports show the bare name


def prepare(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Check the markers of all tests, then watch them. Raises ``pytest.UsageError`` for a wrong marker."""
    try:
        for item in items:
            asked(item)
    except pytest.UsageError as problem:
        if hasattr(config, "workeroutput"):  # a worker of pytest-xdist: its controller raises it again
            config.workeroutput["agentguard"] = str(problem)
        raise
    watch(config)


def watch(config: pytest.Config) -> None:
    """Draw verdicts from now on."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(Verdicts(), _NAME)


@contextmanager
def opened(item: pytest.Item) -> Iterator[AgentGuard]:
    """The ``AgentGuard`` of a test; what is held in the end is released."""
    watch(item.config)
    guard = guard_of(item)
    if guard is None or guard.judged or not guard.watches:  # else the body is on, and asks for a fixture now
        guard = opening(item, asked(item).limits)
    try:
        yield guard
    finally:
        guard.release()


class Verdicts:
    """The hooks per test."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Judge after the body, sync or async, has ended; the test's own failure goes on as it came."""
        wanted = asked(item)
        guard = guard_of(item)
        if wanted.rules and (guard is None or guard.judged):
            guard = opening(item, wanted.limits)
        if guard is not None and LEFTOVERS in wanted.rules:
            guard.look_for_leftovers()
        try:
            result = yield
        except _OWN_ENDS:
            _let_go(item)
            raise
        except (Exception, pytest.fail.Exception):
            _conclude_beside(item)
            raise
        except BaseException:
            _let_go(item)
            raise
        _conclude(item)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the findings to the report of a test that failed by itself.

        Judges here where a test asked for our first fixture in its body: then the call began without us.
        """
        guard = guard_of(item)
        if guard is None or call.when != "call":
            return (yield)
        if not guard.judged:
            _conclude_late(item, call)
        report = yield
        if guard.findings and (call.excinfo is None or call.excinfo.value is not guard.failure):
            report.sections.append(("agentguard", guard.findings))
        return report


def _conclude(item: pytest.Item) -> None:
    """Raise what is wrong."""
    guard = guard_of(item)
    if guard is not None and guard.conclude(asked(item).rules):
        guard.failure = AgentguardFailed(guard.findings, pytrace=False)
        raise guard.failure


def _conclude_beside(item: pytest.Item) -> None:
    """Note what is wrong besides the test's own failure, which nothing here may replace."""
    guard = guard_of(item)
    if guard is None:
        return
    try:
        guard.conclude(asked(item).rules, failed=True)
    except Exception as problem:
        guard.findings = f"not judged: {type(problem).__name__}: {problem}"


def _conclude_late(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None:
        _let_go(item) if isinstance(call.excinfo.value, _OWN_ENDS) else _conclude_beside(item)
        return
    try:
        _conclude(item)
    except BaseException as failure:
        call.excinfo = pytest.ExceptionInfo.from_exception(failure)


def _let_go(item: pytest.Item) -> None:
    guard = guard_of(item)
    if guard is not None:
        guard.judged = True
        guard.release()
