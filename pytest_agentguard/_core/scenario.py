"""What a scenario is: a script for the witnesses, a job for the agent, rules that it gives occasion to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_agentguard._core import limits as _limits
from pytest_agentguard._core.contracts import RECORD, Limits, ToolSpec
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._core.reply import Reply

_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a script may know: dialect, mode, the nonce of the final answer, how to measure a reply."""

    dialect: Dialect
    mode: str
    final: str
    strict: bool
    measure: Callable[
        [Reply], Plan
    ]  # the plan that a reply would have here; sizes do not depend on the nonce


@dataclass(frozen=True, slots=True)
class Variant:
    """One process run of a scenario that needs several: ``mode`` overrides, ``size`` is in bytes."""

    label: str
    mode: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """One of many jobs that run side by side in one process, with replies of its own."""

    label: str
    replies: Sequence[Reply]


Script = Callable[[Setup], Sequence[Reply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One case of the battery.

    ``script(setup)`` gives the replies in order. ``invariants`` are the ids of the rules that it gives
    occasion to. ``dialects``/``modes`` restrict it, ``without`` takes out pairs of the two in which it cannot
    happen; a mode ``both`` means that its variants cover both. ``variants`` run the job once per variant,
    each in a process of its own, into one ledger with a lane per variant; their script is ``vary(setup,
    variant)``. ``lanes(setup)`` runs many jobs side by side in one process (sweeps). ``strict`` scenarios run
    under ``--agentguard-strict`` only. ``control`` marks the job with nothing wrong that all others depend
    on. ``watch`` is the observation window, ``seconds`` the hard deadline, both in seconds.
    """

    id: str
    summary: str
    invariants: tuple[str, ...]
    script: Script | None = None
    vary: Callable[[Setup, Variant], Sequence[Reply]] | None = None
    variants: tuple[Variant, ...] = ()
    lanes: Callable[[Setup], Sequence[Lane]] | None = None
    together: bool = False  # lanes are judged as one story (isolation), not as a sweep
    tools: tuple[ToolSpec, ...] = (RECORD,)
    limits: Limits = _NO_LIMITS
    prompt: str = "Record the value, then answer."
    surface: str = "chat"
    dialects: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("stream", "block")
    without: tuple[tuple[str, str], ...] = ()
    strict: bool = False
    control: bool = False
    memory: bool = False
    heavy: bool = False  # takes all of a machine, so that it goes apart from the others: a sweep, a flood
    paced: bool = (
        False  # healthy content at a pace: a violation counts if it comes again at a third of the pace
    )
    watch: float = _limits.WATCH_SECONDS
    seconds: float = _limits.RUN_SECONDS
    requirements: tuple[str, ...] = ()
    hint: str = ""  # one sentence for the story: why this is wrong here

    @property
    def is_timed(self) -> bool:
        """Whether a limit in seconds is at work, so that a busy machine can end a run before the fault."""
        return bool(self.limits.times())

    def covers(self, dialect: str, mode: str) -> bool:
        """Whether the scenario exists in this dialect and mode."""
        if self.dialects and dialect not in self.dialects:
            return False
        return mode in self.modes and (dialect, mode) not in self.without
