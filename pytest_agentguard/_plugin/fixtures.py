"""The ``agentguard`` object of a test: its ledger, its witnesses, its verdicts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentguard._core.contracts import Adapter, Job, Limits
from pytest_agentguard._core.errors import AgentguardError, UsageError
from pytest_agentguard._core.events import (
    RunEnded,
    RunStarted,
    StopRequested,
    TranscriptRejected,
    Witness,
    WitnessFailed,
)
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.verdict import Outcome, Verdict, judge, undelivered
from pytest_agentguard._plugin.runs import UNSAID, Run, ended_by
from pytest_agentguard._witnesses import clock
from pytest_agentguard.catalogue import dialects, invariant

if TYPE_CHECKING:
    from pytest_agentguard._plugin.in_process import BatteryReport
    from pytest_agentguard._plugin.leftovers import Leftovers
    from pytest_agentguard._plugin.tool_spies import ToolSpies
    from pytest_agentguard._witnesses.counting_server import CountingServer
    from pytest_agentguard._witnesses.endpoint import Endpoint
    from pytest_agentguard._witnesses.engine import Engine
    from pytest_agentguard._witnesses.origins import Origins

LEFTOVERS = "nothing-left-behind"  # the rule that has a test's body watched
_NO_LIMITS = Limits()


class AgentGuard:
    """What the witnesses of one test saw, and what the rules say about it."""

    def __init__(
        self,
        name: str,
        *,
        engine: Callable[[], Engine],
        scratch: Callable[[], Path],
        origins: Callable[[], Origins],
        limits: Limits = _NO_LIMITS,
        seed: str = "0",
        strict: bool = False,
    ) -> None:
        self.ledger = Ledger(clock=clock.now)
        self.judged = False
        self.findings = ""
        self.failure: BaseException | None = None
        self._name = name
        self._engine = engine
        self._scratch = scratch
        self._origins = origins
        self._leftovers: Leftovers | None = None
        self._limits = limits
        self._seed = seed
        self._strict = strict
        self._endpoints: list[Endpoint] = []
        self._counting: list[CountingServer] = []
        self._spies: list[ToolSpies] = []
        if limits != _NO_LIMITS:
            self._started()

    # -- for the test ---------------------------------------------------------------------------------

    def check(self, id: str, *, allow_not_exercised: bool = False) -> Verdict:
        """The verdict of one rule on what was seen so far; raises ``AssertionError`` unless the rule held."""
        __tracebackhide__ = True
        problem, verdict = self._judged(id, allow_not_exercised)
        if problem:
            raise AssertionError(problem)
        return verdict

    def story(self) -> str:
        """Every fact so far, one line each."""
        from pytest_agentguard.reports.story import render_ledger

        self._settle()
        return render_ledger(self.ledger)

    @contextmanager
    def run(self, *, final: str = "", limits: Limits | None = None) -> Iterator[Run]:
        """A run of the agent, which releases everything held when it ends.

        It ends with the exception that leaves the block, or else with what ``run.answer(text)`` was given;
        raises ``UsageError`` where there is neither.
        ``final`` is what only a real success returns; ``limits`` are added to those of the marker.
        """
        run = Run()
        self._started(final, limits)
        try:
            yield run
        except BaseException as error:
            self._ended(**ended_by(error))
            raise
        if run.answered is None:
            self.ledger.record(WitnessFailed, witness=Witness.RUNNER, error=UNSAID)
            self.release()
            raise UsageError(UNSAID)
        self._ended(how="returned", answer=run.answered)

    def stop(self, by: str = "cancel", *, at: str = "", again: bool = False) -> None:
        """Put on record that the agent is told to stop now, behind everything that it has sent so far.

        To be called just before the cancel, where the agent cannot run meanwhile: in its own loop or thread.
        """
        for endpoint in self._endpoints:
            endpoint.barrier.drain()
        for server in self._counting:
            server.barrier.drain()
        self.ledger.record(StopRequested, witness=Witness.RUNNER, by=by, at=at, again=again)

    def run_battery(
        self,
        run: Adapter | Callable[[Job], Any],
        *,
        scenarios: Iterable[str] = (),
        dialects: Iterable[str] = (),
        modes: Iterable[str] = (),
        backend: str = "asyncio",
        level: str = "should",
        strict: bool | None = None,
        seed: int = 0,
        jobs: int = 8,
    ) -> BatteryReport:
        """Judge ``run(job)`` by the battery, in this process; it blocks, also in an async test.

        ``scenarios``, ``dialects`` and ``modes`` restrict it (empty: everything). Each run is called in a
        thread of its own, an async ``run`` on a loop of its own (``backend``: asyncio or trio). Raises
        ``AssertionError`` with the story of each violation at ``level`` or worse, and of each invalid run.
        ``strict`` adds the alarms that only an agent reading raw bytes can avoid (None: as the option says).
        """
        __tracebackhide__ = True
        _need_sockets("agentguard.run_battery")
        from pytest_agentguard._plugin.in_process import run_battery

        return run_battery(
            run,
            scenarios=scenarios,
            dialects=dialects,
            modes=modes,
            backend=backend,
            level=level,
            strict=self._strict if strict is None else strict,
            seed=seed,
            jobs=jobs,
        )

    # -- for the fixtures -------------------------------------------------------------------------------

    @contextmanager
    def endpoint(self) -> Iterator[Endpoint]:
        """An endpoint that records into the ledger of this test."""
        _need_sockets("sse_endpoint")
        from pytest_agentguard._witnesses.endpoint import Endpoint

        made = Endpoint(self.ledger, dialects(), engine=self._engine(), seed=self._seed, strict=self._strict)
        with made as endpoint:
            self._endpoints.append(endpoint)
            yield endpoint

    @contextmanager
    def counting_server(self) -> Iterator[CountingServer]:
        """A counting server that records into the ledger of this test."""
        _need_sockets("counting_server")
        from pytest_agentguard._witnesses.counting_server import CountingServer

        with CountingServer(self.ledger, engine=self._engine(), seed=self._seed) as server:
            self._counting.append(server)
            yield server

    @contextmanager
    def tool_spies(self) -> Iterator[ToolSpies]:
        """A maker of tool spies that record into the ledger of this test, in child processes of it too."""
        from pytest_agentguard._plugin.tool_spies import ToolSpies
        from pytest_agentguard._witnesses.journal_file import AcrossProcesses

        recorder = AcrossProcesses(self.ledger, self._scratch() / f"{id(self):x}.jsonl")
        self.ledger.also_read(recorder.entries)
        spies = ToolSpies(recorder, seed=f"{self._seed}/tools")
        self._spies.append(spies)
        try:
            yield spies
        finally:
            spies.release()

    # -- for the verdict --------------------------------------------------------------------------------

    @property
    def watches(self) -> bool:
        """Whether it is taken down what was there before the body of the test."""
        return self._leftovers is not None

    def look_for_leftovers(self) -> None:
        """Take down what is there now: what comes from here on has to be gone when the test is judged."""
        from pytest_agentguard._plugin.leftovers import Leftovers

        self._leftovers = Leftovers(self._origins())

    def conclude(self, rules: Mapping[str, bool], *, failed: bool = False) -> str:
        """Release what is held, judge, and say all that is wrong; empty where nothing is.

        ``rules`` says for each id whether the rule may stay unexercised, ``failed`` that the test has failed
        by itself.
        """
        self.judged = True
        try:
            self.release()
            self._settle()
            if self._leftovers is not None:
                ports = self._engine().ports if self._endpoints or self._counting else ()
                self._leftovers.record(self.ledger, ports, failed=failed)
                self._settle()
        except AgentguardError as stuck:
            self.findings = f"not judged: {stuck}"
            return self.findings
        judged = [self._judged(id, allowed) for id, allowed in rules.items()]
        problems = [problem for problem, _ in judged if problem]
        if not any(verdict.outcome is Outcome.INVALID for _, verdict in judged):
            problems += [line for line, _ in undelivered(self.ledger)]
        problems += [line for endpoint in self._endpoints for line in self._unfollowed(endpoint)]
        problems += [line for server in self._counting for line in server.problems()]
        self.findings = "\n".join(problems)
        return self.findings

    def release(self) -> None:
        """Let go of everything that is held."""
        for spies in self._spies:
            spies.release()
        for endpoint in self._endpoints:
            endpoint.release(by="run-ended")
        for server in self._counting:
            server.release(by="run-ended")

    # -- inside -------------------------------------------------------------------------------------------

    def _judged(self, id: str, allow_not_exercised: bool) -> tuple[str, Verdict]:
        """What is wrong by one rule, as text (empty where nothing is), and the verdict."""
        from pytest_agentguard.reports.story import render_finding

        rule = invariant(id)
        self._settle()
        verdict = judge(self.ledger, rule)
        allowed = allow_not_exercised and verdict.outcome is Outcome.NOT_EXERCISED
        if allowed or verdict.outcome is Outcome.HELD:
            return "", verdict
        rerun = f"pytest {shlex.quote(self._name)}"
        return render_finding(verdict, self.ledger, occasion=rule.occasion, rerun=rerun), verdict

    def _unfollowed(self, endpoint: Endpoint) -> Iterator[str]:
        """How the requests differed from the script, one line each."""
        unplayed = endpoint.unplayed()
        for refused in self.ledger.of(TranscriptRejected) if unplayed else ():
            yield f"request {refused.request} was refused as by a provider: {refused.problem}"
        yield from endpoint.problems()
        yield from unplayed

    def _settle(self) -> None:
        """Wait until everything that the clients have seen is recorded."""
        for endpoint in self._endpoints:
            endpoint.settle()
        for server in self._counting:
            server.settle()

    def _started(self, final: str = "", limits: Limits | None = None) -> None:
        self.ledger.record(
            RunStarted,
            witness=Witness.RUNNER,
            scenario=self._name,
            final=final,
            limits={**self._limits.declared(), **(limits or _NO_LIMITS).declared()},
            tools={spy.name: spy.parameters for spies in self._spies for spy in spies},
        )

    def _ended(self, **fields: Any) -> None:
        self.ledger.record(RunEnded, witness=Witness.RUNNER, **fields)
        self.release()


def _need_sockets(what: str) -> None:
    import socket

    if socket.socket.__module__ == "pytest_socket":
        raise UsageError(
            f"{what} listens on 127.0.0.1 and pytest-socket blocks every socket of this test: "
            "add --allow-hosts=127.0.0.1 to --disable-socket"
        )
