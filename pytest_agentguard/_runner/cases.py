"""Which runs a battery consists of, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_agentguard._core import limits
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._core.report import Check
from pytest_agentguard._core.scenario import Scenario

INTERRUPT = "interrupt"
CHAT = "chat"  # the surface with a model: its cases have a dialect and a mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a battery runs. ``jobs`` runs overlap; the same ``seed`` gives the same ids and nonces."""

    seed: int = 0
    jobs: int = limits.JOBS
    strict: bool = False
    dialects: tuple[str, ...] = ()  # empty: every dialect
    artifacts: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One agent in one scenario, dialect and mode; equal where agent and name are."""

    agent: str
    scenario: Scenario
    dialect: str
    mode: str

    @property
    def name(self) -> str:
        """``scenario[dialect-mode]``, or ``scenario[surface]`` without a model; unique within an agent."""
        where = f"{self.dialect}-{self.mode}" if self.dialect else self.scenario.surface
        return f"{self.scenario.id}[{where}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and (self.agent, self.name) == (other.agent, other.name)

    def __hash__(self) -> int:
        return hash((self.agent, self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What one case came to; where ``uncovered`` says why the agent was not asked, there are no checks."""

    case: Case
    checks: tuple[Check, ...] = ()
    uncovered: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    seconds: float = 0.0
    label: str = ""  # of the lane that the story is about, in a sweep


def cases_of(
    agent: str,
    scenarios: Iterable[Scenario],
    *,
    dialects: Sequence[str],
    modes: Sequence[str],
    surfaces: Sequence[str],
    strict: bool,
) -> list[Case]:
    """Every case that an agent offers, control first, in the order of the scenarios."""
    found = []
    for scenario in scenarios:
        if scenario.surface not in surfaces or (scenario.strict and not strict):
            continue
        if scenario.surface != CHAT:
            found.append(Case(agent, scenario, "", ""))
            continue
        for dialect in dialects:
            for mode in scenario.modes:
                if not scenario.covers(dialect, mode):
                    continue
                if mode in modes or (mode == "both" and {"stream", "block"} <= set(modes)):
                    found.append(Case(agent, scenario, dialect, mode))
    return found


def uncovered_cancel(scenario: Scenario, cancels: str) -> str:
    """Why a scenario cannot cancel its run, where the agent is cancelled as ``Hello.cancels`` says; or empty.

    SIGINT is for a whole process, and a tool that swallows it leaves the agent nothing to obey.
    """
    if scenario.cancel is None:
        return ""
    if not cancels:
        return "cancel (a run in this process is not cancelled)"
    if cancels != INTERRUPT:
        return ""
    if scenario.lanes is not None:
        return "cancel of one run of several (SIGINT is for all of them; the adapter has no cancel)"
    if scenario.fetch is not None and any(call.workers > 1 for call in scenario.fetch.calls):
        return "cancel of several workers (SIGINT reaches only the main thread; the adapter has no cancel)"
    if any(tool.behaviour.does == "swallow-cancel" for tool in scenario.tools):
        return "cancel that a tool swallows (SIGINT reaches only the tool; the adapter has no cancel)"
    return ""
