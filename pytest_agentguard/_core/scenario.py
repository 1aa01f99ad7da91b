"""What a scenario is: a script for the witnesses, a job for the agent, rules that it gives occasion to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_agentguard._core import limits as _limits
from pytest_agentguard._core.contracts import RECORD, Limits, ToolSpec
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._core.reply import Reply

_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a script may know: dialect, mode, the nonce of the final answer, how to measure a reply.

    ``elsewhere`` is the root URL of another origin, where a counting server listens, in scenarios that ask
    for one.
    """

    dialect: Dialect
    mode: str
    final: str
    strict: bool
    measure: Callable[
        [Reply], Plan
    ]  # the plan that a reply would have here; sizes do not depend on the nonce
    elsewhere: str = ""


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

CANCEL_AT = {
    "before-send": ("RunStarted", "FetchStarted"),
    "request": ("RequestReceived", "HttpReceived"),
    "body": ("StreamHeld",),
    "tool": ("ToolStarted",),
    "clean-up": ("ToolCancelled",),
}
"""Where a run can be cancelled, and the facts that say that it has got there."""

ROUTES = ("ok", "fail", "drop", "redirect", "slow", "hold", "oversize", "endless", "partial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The run is cancelled as soon as a witness has seen it get to ``at``, for the ``nth`` time.

    ``again`` cancels it once more, while a tool cleans up after the first. ``after`` seconds from its
    start, where it is set, take the place of ``at``.
    """

    at: str = "request"
    nth: int = 1
    again: bool = False
    after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What the counting server does with the requests for one path.

    ``does``: ``ok`` · ``fail`` (``status``) · ``drop`` (read, then closed without an answer) · ``redirect``
    (``status``, ``to``) · ``slow`` (``seconds`` of silence first) · ``hold`` (until released, ``seconds`` at
    most; with a ``size`` not before the answer but behind so many bytes of a longer body) · ``oversize``
    (``size`` bytes) · ``endless`` (``size`` bytes at most) · ``partial`` (``size`` bytes of a longer body,
    then the end). ``effect`` counts an effect when the answer is due, a held one's when it is released.
    ``times`` requests are treated so, those that follow as ``then`` says. ``allowed`` is False for what
    nobody may ask for. In ``to`` and ``body``, ``{first}``, ``{other}`` and ``{name}`` are the root URLs of
    the server, of its other origin and of itself under another host name, ``{nonce}`` a value that is new in
    every answer.
    """

    path: str
    does: str = "ok"
    status: int = 200
    to: str = ""
    seconds: float = 0.0
    size: int = 0
    body: str = "ok {nonce}"
    retry_after: str = ""
    effect: bool = False
    allowed: bool = True
    times: int = 0  # 0: all
    then: Route | None = None


@dataclass(frozen=True, slots=True)
class FetchCall:
    """One use of a fetch tool; ``workers`` of them side by side, all with the same input.

    The same names are replaced in ``input`` as in a route's ``to``, and ``{port}`` and ``{other_port}``.
    """

    input: str
    allowed: bool = True
    workers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchScript:
    """What a fetch tool may do, what it is asked to do, in order, and what the server does meanwhile.

    ``allowed`` maps ids to paths of the server.
    """

    routes: tuple[Route, ...]
    calls: tuple[FetchCall, ...]
    allowed: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One case of the battery.

    ``script(setup)`` gives the replies in order. ``invariants`` are the ids of the rules that it gives
    occasion to. ``dialects``/``modes`` restrict it, ``without`` takes out pairs of the two in which it cannot
    happen; a mode ``both`` means that its variants cover both. ``variants`` run the job once per variant,
    each in a process of its own, into one ledger with a lane per variant; their script is ``vary(setup,
    variant)``. ``lanes(setup)`` runs many jobs side by side in one process (sweeps). ``strict`` scenarios run
    under ``--agentguard-strict`` only. A scenario of the surface ``fetch`` has a ``fetch`` script in place of
    replies, dialects and modes. ``cancel`` says when the run is cancelled; ``elsewhere`` asks for a second
    origin, at which nothing may arrive. ``control`` marks the job with nothing wrong that all others depend
    on. ``watch`` is the observation window, ``seconds`` the hard deadline, both in seconds.
    """

    id: str
    summary: str
    invariants: tuple[str, ...]
    script: Script | None = None
    vary: Callable[[Setup, Variant], Sequence[Reply]] | None = None
    variants: tuple[Variant, ...] = ()
    lanes: Callable[[Setup], Sequence[Lane]] | None = None
    fetch: FetchScript | None = None
    cancel: Cancel | None = None
    elsewhere: bool = False
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
