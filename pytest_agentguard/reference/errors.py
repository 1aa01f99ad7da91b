"""Everything that the agent raises on purpose: the class says what went wrong, the message what was seen."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentguard.reference.turns import Turn

SHOWN = 300  # characters of foreign text in a message


class AgentError(Exception):
    """The run failed. ``received`` is how the response began, ``partial`` what had come of the turn.

    ``status`` is that of the response, 0 where no head of one had come; ``retry_after`` is for how many
    seconds its head asks; ``effect`` says so where nobody knows what became of a request.
    """

    received: bytes = b""
    partial: Turn | None = None
    status: int = 0
    retry_after: float | None = None
    effect: str = ""

    def __str__(self) -> str:
        return "; ".join(filter(None, (super().__str__(), self.effect)))


# -- limits that were reached ------------------------------------------------------------------------


class TimedOut(AgentError, TimeoutError):
    """A time limit was reached. A cancel is never reported as one."""


class IdleTimeout(TimedOut):
    """The endpoint was silent for too long."""


class RequestTimeout(TimedOut):
    """One exchange took too long in all."""


class DeadlineReached(TimedOut):
    """The run took too long in all."""


class RoundsExhausted(AgentError):
    """The model still asked for tools in the last turn that was allowed."""


class TooManyCalls(AgentError):
    """The model asked for more tool calls than the run allows; none of that turn was run."""


class BudgetExhausted(AgentError):
    """All attempts that were allowed are spent; nothing was sent."""


# -- a stop ------------------------------------------------------------------------------------------


class RunStopped(AgentError):
    """A stop is on record, and this came after it; nothing was started."""


class RunCancelled(RunStopped, CancelledError):
    """A thread was told to stop: what waits ends, what comes later is refused. Tasks hear it as tasks do."""


# -- tools that fetch --------------------------------------------------------------------------------


class NotAllowed(AgentError):
    """The input is none of the ids that may be fetched; nothing was sent and nothing spent."""


class FetchFailed(AgentError):
    """The server's answer is no result."""


class RedirectRefused(FetchFailed):
    """The server points elsewhere; nobody goes there."""


class ResponseTooLarge(FetchFailed):
    """The response is larger than its bound; the rest was not read."""


# -- the response --------------------------------------------------------------------------------------


class ReplyError(AgentError):
    """The response is no whole turn of the model."""


class Unreachable(ReplyError):
    """No connection, or nothing could be sent."""


class NotAReply(ReplyError):
    """Status 200, but something else than what was asked for: a page, another content type, an encoding."""


class BrokenReply(ReplyError):
    """The response breaks the rules of its dialect."""


class IncompleteReply(ReplyError):
    """The response ended before the turn was complete."""


class ConnectionLost(IncompleteReply):
    """The connection was cut or reset before the turn was complete."""


class EmptyReply(IncompleteReply):
    """The response ended without a single event, or says nothing."""


class ReplyTooLarge(ReplyError):
    """The response, or one event of it, is larger than its bound."""


# -- why the model stopped -----------------------------------------------------------------------------


class Stopped(AgentError):
    """The turn is complete, and its finish reason forbids using it."""


class OutputLimit(Stopped):
    """The model was cut short by its output limit."""


class Refused(Stopped):
    """The model or a filter refused."""


class UnknownFinish(Stopped):
    """The finish reason is none that this agent knows."""


# -- what the provider says ----------------------------------------------------------------------------


class ProviderError(AgentError):
    """The provider reports an error, by status, in a body or in the middle of a stream."""


class AuthFailed(ProviderError):
    """The key is missing, wrong or without permission."""


class BadRequest(ProviderError):
    """The request is not accepted as it is."""


class ContextOverflow(BadRequest):
    """The transcript is longer than the model's window."""


class NotFound(ProviderError):
    """No such model or path."""


class RateLimited(ProviderError):
    """Too many requests or tokens for now."""


class QuotaExhausted(ProviderError):
    """The account has nothing left; waiting does not help."""


class Overloaded(ProviderError):
    """The provider has no capacity for now."""


class Redirected(ProviderError):
    """The endpoint points elsewhere. The key and the prompt stay here."""


class ServerFailed(ProviderError):
    """The provider failed inside."""


# -- calls that are not run; the model is told, the run goes on ---------------------------------------------


class CallRefused(AgentError):
    """A call is not run."""


class UnknownTool(CallRefused):
    """No tool of that name was offered."""


class BrokenArguments(CallRefused):
    """The arguments are not one JSON object."""


class InvalidArguments(CallRefused):
    """The arguments are a JSON object that the tool's schema does not allow."""


def shown(text: str | bytes) -> str:
    """Foreign text as a message shows it: on one line, cut, with its length where it was cut."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN]!r} (cut, length={len(text)})"
