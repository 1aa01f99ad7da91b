"""The kinds of fact that a witness records.

An event is frozen, names its witness, and says what was seen, never what it means.
``seq`` and ``t`` are given by the ledger; they do not take part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_agentguard._core.event import Event as Event
from pytest_agentguard._core.event import Witness as Witness
from pytest_agentguard._core.http_events import (
    ConnectionAccepted as ConnectionAccepted,
)
from pytest_agentguard._core.http_events import (
    EffectDone as EffectDone,
)
from pytest_agentguard._core.http_events import (
    FetchEnded as FetchEnded,
)
from pytest_agentguard._core.http_events import (
    FetchStarted as FetchStarted,
)
from pytest_agentguard._core.http_events import (
    HttpAnswered as HttpAnswered,
)
from pytest_agentguard._core.http_events import (
    HttpReceived as HttpReceived,
)
from pytest_agentguard._core.http_events import (
    RedirectOffered as RedirectOffered,
)

# -- runner -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The agent was handed a job.

    ``final`` is the nonce that a real success returns, ``limits`` the declared limits by name,
    ``tools`` the names of the tools on offer.
    """

    agent: str = ""
    scenario: str = ""
    dialect: str = ""
    mode: str = ""
    final: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)  # name -> JSON schema of its parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """The run is over, as the runner saw it.

    ``how``: ``returned`` · ``raised`` · ``limited`` · ``failed`` · ``cancelled`` (what the agent's code did),
    ``exited`` · ``signalled`` (its process went away on its own), ``killed`` (the runner's hard deadline).
    A normal return is only a claim of success; ``answer`` is what it claimed.
    """

    how: str
    answer: str | None = None
    error: str | None = None  # the message, cut
    error_type: str | None = None  # the qualified class name
    error_chain: tuple[str, ...] = ()  # class names of the exception and its causes, outermost first
    code: int | None = None  # exit status or signal number of the process
    kept: str | None = (
        None  # text that the agent says it has kept of a run that was cancelled; None: not asked
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The run was told to stop, and everything that it had sent by then has been read.

    ``by``: ``cancel`` (its task, its thread by the adapter, or SIGINT), ``deadline`` (its declared deadline
    had passed when a call of it ended). ``at`` is where the run stood: ``before-send``, ``request``,
    ``body``, ``tool``, ``clean-up``. ``again`` marks a second cancel.
    """

    by: str = "cancel"
    at: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEnded(Event):
    """The observation window after the end has passed."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMeasured(Event):
    """Peak resident memory of the agent's own process during the run, less what it had at the fork."""

    grown: int  # bytes
    sent: int  # bytes that the endpoint had sent by then


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind(Event):
    """Something of the run was alive or open after the grace period."""

    kind: str  # process, thread, task, socket, listener, file, temporary, request
    what: str
    created: str = ""  # where it was made: file, line and function, as far as that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectBlocked(Event):
    """The agent's process tried to connect somewhere else than loopback, or to look up a name there.

    ``what``: ``connect`` · ``lookup`` (of a name; that of a numeric address sends nothing, and is no fact).
    """

    address: str
    what: str = "connect"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutput(Event):
    """What the agent's process wrote on a standard stream, cut at the bound."""

    stream: str
    text: str
    total: int  # bytes


# -- endpoint ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived(Event):
    """A whole request was read; recorded before anything is answered."""

    request: str
    method: str = "POST"
    path: str = ""
    dialect: str = ""  # empty: no dialect has this path
    mode: str = ""  # stream or block, from the body or the path
    kind: str = "turn"  # turn, models, other
    turn: int = 0  # model turn it belongs to, counted from 1: one more than the turns completed before it
    credentials: tuple[str, ...] = ()  # names of the headers that carried one, never their values
    headers: dict[str, str] = field(default_factory=dict)  # credentials replaced by "present"
    body: str = ""  # raw text; undecodable bytes as backslash escapes
    body_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUnmatched(Event):
    """No scripted reply fits the request; it got an error that says so."""

    request: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptRejected(Event):
    """A real provider would have rejected this request's transcript."""

    request: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyStarted(Event):
    """The endpoint is about to answer a request with a scripted reply."""

    stream: str
    request: str
    label: str = ""  # the fault in words, for people: "cut inside the value of x"
    status: int = 200
    mode: str = ""
    dialect: str = ""
    content_type: str = ""
    text: str = ""  # the text that the whole reply offers
    finish: str = ""  # neutral finish reason of the whole reply
    fault: str = ""  # id of the kind of fault, empty for a healthy reply
    paused: float = 0.0  # planned silence within the reply, all pauses together, s
    retry_after: float | None = None  # s, where the reply has the header as a number


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOffered(Event):
    """The reply offers a tool call; recorded before its first byte leaves.

    ``arguments`` is the raw text of the whole planned call; ``problem`` names what is wrong with it on
    purpose: empty, ``broken`` (not a JSON object), ``invalid`` (violates the schema), ``extra`` (unknown
    extra member).
    """

    stream: str
    call: str
    tool: str
    arguments: str = ""
    nonce: str = ""
    problem: str = ""
    call_id: str | None = None  # the id on the wire; None where the reply leaves it out
    known: bool = True  # False: the request did not offer this tool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCompleted(Event):
    """The completion marker is about to leave; from here on the offered calls may run if ``permits``."""

    stream: str
    permits: bool = True  # what the finish reason says: False for length, filter, refusal, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSent(Event):
    """An error left: an HTTP status, an error body with status 200, or an error event in mid-stream."""

    stream: str
    kind: str  # overloaded, rate-limit, auth, context, server, …
    where: str  # status, body, event


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHeld(Event):
    """The endpoint stopped sending on purpose and keeps the connection open (or only drips)."""

    stream: str
    hold: str
    why: str = "stall"  # stall, drip, hold, keep-open
    sent: int = 0  # body bytes sent before


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReleased(Event):
    """A held response was let go; recorded before any byte that follows."""

    stream: str
    hold: str
    by: str  # test, run-ended, limit, client-closed


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnded(Event):
    """The endpoint stopped sending; ``complete`` says whether the completion marker went out.

    This is the delivery receipt: what was planned, what really left the socket, and how the connection ended.
    ``fired`` is False when the fault of this reply lies behind the last byte that left.
    """

    stream: str
    complete: bool
    end: str = "clean"  # clean, cut, reset, stalled, client-left, server-failed
    planned_end: str = "clean"
    sent: int = 0  # body bytes that left
    planned: int = 0
    fired: bool = True
    begun: tuple[str, ...] = ()  # calls of which at least one byte left
    whole: tuple[str, ...] = ()  # calls whose arguments left to the last byte
    arguments_sent: tuple[str, ...] = ()  # per call in ``begun``: what left, in whole fragments
    text_sent: str = ""  # the reply's text as far as it left
    gap: float = 0.0  # longest silence after a send, s: up to the next, or until the client left
    finished: bool = False  # the finish reason left, whether or not that is the completion marker


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientClosed(Event):
    """The client closed its side while the endpoint was still answering or holding."""

    stream: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingReached(Event):
    """The endpoint stops serving: more requests than its ceiling."""

    limit: int


# -- tool spy ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(Event):
    """A tool spy was really called; recorded before its effect.

    The spy sees only arguments. ``stream`` and ``call`` are filled in by the ledger, which joins the start to
    the call that was offered; they are empty where nothing fits.
    """

    tool: str
    invocation: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    stream: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(Event):
    """A tool spy returned."""

    tool: str
    invocation: str
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRaised(Event):
    """A tool spy raised on purpose."""

    tool: str
    invocation: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCancelled(Event):
    """A tool spy was cancelled while it ran."""

    tool: str
    invocation: str
    swallowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMiscalled(Event):
    """A tool spy was called with arguments that its signature does not take: Python raised, nothing ran."""

    tool: str
    error: str
    arguments: dict[str, Any] = field(default_factory=dict)


# -- ledger, claims ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Event):
    """What the agent says about itself. It can never satisfy or break an invariant by itself."""

    what: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFull(Event):
    """The ledger reached its bound; what came later is lost and the run is invalid."""

    limit_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessFailed(Event):
    """A witness broke; the run proves nothing."""

    error: str
