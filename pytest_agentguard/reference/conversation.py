"""What the agent decides between two requests. Each guard is one method; nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_agentguard.reference import anthropic, errors, openai_chat
from pytest_agentguard.reference.bounds import Bounds
from pytest_agentguard.reference.budget import AttemptBudget
from pytest_agentguard.reference.intake import Intake
from pytest_agentguard.reference.retrying import Attempts
from pytest_agentguard.reference.sse import Decoder
from pytest_agentguard.reference.supervisor import Supervisor
from pytest_agentguard.reference.tools import arguments_of, validate
from pytest_agentguard.reference.turns import Call, Calls, Finish, Result, Turn
from pytest_agentguard.reference.wire import Dialect, Messages

DIALECTS: Mapping[str, Dialect] = {"openai-chat": openai_chat, "anthropic": anthropic}


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may run."""

    call: Call
    tool: Any
    arguments: dict[str, Any]


class Conversation:
    """The state of one run, and every decision about it.

    ``job`` has ``prompt``, ``endpoint`` (``dialect``, ``base_url``, ``api_key``, ``model``), ``mode``
    (``stream`` or ``block``), ``tools`` (``name``, ``description``, ``parameters``, ``run``, ``arun``) and
    ``limits``.
    """

    decoder = Decoder
    calls = Calls
    intake = Intake
    attempts = Attempts
    supervisor = Supervisor

    def __init__(self, job: Any) -> None:
        self.job = job
        self.dialect = DIALECTS[job.endpoint.dialect]
        self.bounds = self.bounds_of(job.limits)
        self.tools = {tool.name: tool for tool in job.tools}
        self.messages = self.opening()
        self.stop = self.supervisor(self.bounds.deadline)
        self._asked_for = 0  # tool calls
        self._told = ""  # text of turns that are over
        self._incoming: Intake | None = None

    # -- what is sent -----------------------------------------------------------------------------------

    def opening(self) -> Messages:
        """Guard: every run has a transcript of its own."""
        return [{"role": "user", "content": self.job.prompt}]

    def request(self) -> dict[str, Any]:
        """The body of the next request."""
        return self.dialect.request(
            self.job.endpoint.model,
            self.messages,
            list(self.tools.values()),
            self.job.mode == "stream",
            self.bounds.output_tokens,
        )

    def turn_attempts(self) -> Attempts:
        """Guard: every turn of the model has a number of requests, failed ones included."""
        return self.attempts(AttemptBudget(self.bounds.attempts), ends=self.stop.ends)

    def receiving(self) -> Intake:
        """What reads the next response."""
        self._told = self.kept
        self._incoming = self.intake(
            self.dialect, self.job.mode, self.bounds, decoder=self.decoder, calls=self.calls
        )
        return self._incoming

    @property
    def kept(self) -> str:
        """Guard: all text of the model that has come, also of a turn that was cancelled on its way in."""
        return self._told + (self._incoming.so_far().text if self._incoming else "")

    # -- guards: what is done with a turn ------------------------------------------------------------------

    def bounds_of(self, limits: Any) -> Bounds:
        """Guard: every wait and every buffer has a limit, declared or not."""
        return Bounds.declared(limits)

    def permit(self, turn: Turn) -> None:
        """Guard: the finish reason must permit using the turn; its text and its calls go the same way."""
        match turn.finish:
            case Finish.LENGTH:
                raise errors.OutputLimit(f"the model was cut short: finish={turn.reason}")
            case Finish.REFUSED:
                raise errors.Refused(f"refused: finish={turn.reason} text={errors.shown(turn.text)}")
            case Finish.CALLS if not turn.calls:
                raise errors.BrokenReply(f"finish={turn.reason} without a call")
            case Finish.CALLS | Finish.STOP if turn.calls or turn.text:
                return
            case Finish.STOP:
                raise errors.EmptyReply(f"the model said nothing: finish={turn.reason}")
        raise errors.UnknownFinish(f"unknown finish reason: finish={errors.shown(turn.reason)}")

    def check_all(self, turn: Turn) -> list[Ready | Result]:
        """Guard: every call of a turn is checked before any of them runs."""
        self._asked_for += len(turn.calls)
        if self._asked_for > self.bounds.tool_calls:
            raise errors.TooManyCalls(f"calls={self._asked_for} allowed={self.bounds.tool_calls}")
        return [self.check(call) for call in turn.calls]

    def check(self, call: Call) -> Ready | Result:
        """A call that may run, or what the model is told instead."""
        try:
            tool = self.find(call)
            arguments = self.parse(call, tool)
            self.validate(arguments, tool)
        except errors.CallRefused as error:
            return Result(call, f"error: the call was not run: {error}", failed=True)
        return Ready(call, tool, arguments)

    def find(self, call: Call) -> Any:
        """Guard: only the tool of exactly that name runs."""
        if call.name not in self.tools:
            raise errors.UnknownTool(f"no such tool: {call.name}; tools: {', '.join(sorted(self.tools))}")
        return self.tools[call.name]

    def parse(self, call: Call, tool: Any) -> dict[str, Any]:
        """Guard: arguments are a JSON object as it stands, or the call does not run."""
        return arguments_of(call.arguments, self.bounds, tool.parameters)

    def validate(self, arguments: dict[str, Any], tool: Any) -> None:
        """Guard: arguments keep to the tool's schema, or the call does not run."""
        validate(arguments, tool.parameters)

    def tell(self, turn: Turn, results: Sequence[Result]) -> None:
        """Guard: every call gets exactly one result, in order, also where it failed."""
        self.messages += self.dialect.follow_up(turn, results)
