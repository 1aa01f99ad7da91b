"""Prove that LLM agents are safe when things go wrong. Public names; they are imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Adapter": "contracts", "Behaviour": "contracts", "FetchJob": "contracts", "Job": "contracts",
    "Limits": "contracts", "ModelEndpoint": "contracts", "RunEnd": "contracts", "Tool": "contracts",
    "ToolSpec": "contracts",
    "PURGE": "contracts", "RECORD": "contracts", "REMOVE": "contracts", "SHELL": "contracts",
    "Dialect": "dialect", "Finish": "dialect", "RequestView": "dialect", "Sample": "dialect",
    "ERROR_STATUS": "dialect",
    "AgentguardError": "errors", "LimitReached": "errors", "ProtocolError": "errors", "UsageError": "errors",
    "Fault": "fault", "Seen": "fault",
    "Ledger": "ledger",
    "End": "plan", "Plan": "plan",
    "Reply": "reply",
    "Where": "script", "at_byte": "script", "after_event": "script",
    "START": "script", "BEFORE_FINISH": "script", "AFTER_FINISH": "script", "END": "script",
    "Cancel": "scenario", "FetchCall": "scenario", "FetchScript": "scenario", "Route": "scenario",
    "Lane": "scenario", "Scenario": "scenario", "Setup": "scenario", "Variant": "scenario",
    "Decoder": "sse", "ServerSentEvent": "sse", "encode_event": "sse",
    "Frame": "turn", "Ids": "turn", "Text": "turn", "ToolCall": "turn", "Turn": "turn",
    "Finding": "verdict", "Invariant": "verdict", "Level": "verdict", "Outcome": "verdict",
    "Verdict": "verdict", "exercised": "verdict", "judge": "verdict", "violated": "verdict",
}  # fmt: skip

if TYPE_CHECKING:
    from pytest_agentguard._core.contracts import (
        PURGE as PURGE,
    )
    from pytest_agentguard._core.contracts import (
        RECORD as RECORD,
    )
    from pytest_agentguard._core.contracts import (
        REMOVE as REMOVE,
    )
    from pytest_agentguard._core.contracts import (
        SHELL as SHELL,
    )
    from pytest_agentguard._core.contracts import (
        Adapter as Adapter,
    )
    from pytest_agentguard._core.contracts import (
        Behaviour as Behaviour,
    )
    from pytest_agentguard._core.contracts import (
        FetchJob as FetchJob,
    )
    from pytest_agentguard._core.contracts import (
        Job as Job,
    )
    from pytest_agentguard._core.contracts import (
        Limits as Limits,
    )
    from pytest_agentguard._core.contracts import (
        ModelEndpoint as ModelEndpoint,
    )
    from pytest_agentguard._core.contracts import (
        RunEnd as RunEnd,
    )
    from pytest_agentguard._core.contracts import (
        Tool as Tool,
    )
    from pytest_agentguard._core.contracts import (
        ToolSpec as ToolSpec,
    )
    from pytest_agentguard._core.dialect import (
        ERROR_STATUS as ERROR_STATUS,
    )
    from pytest_agentguard._core.dialect import (
        Dialect as Dialect,
    )
    from pytest_agentguard._core.dialect import (
        Finish as Finish,
    )
    from pytest_agentguard._core.dialect import (
        RequestView as RequestView,
    )
    from pytest_agentguard._core.dialect import (
        Sample as Sample,
    )
    from pytest_agentguard._core.errors import (
        AgentguardError as AgentguardError,
    )
    from pytest_agentguard._core.errors import (
        LimitReached as LimitReached,
    )
    from pytest_agentguard._core.errors import (
        ProtocolError as ProtocolError,
    )
    from pytest_agentguard._core.errors import (
        UsageError as UsageError,
    )
    from pytest_agentguard._core.fault import (
        Fault as Fault,
    )
    from pytest_agentguard._core.fault import (
        Seen as Seen,
    )
    from pytest_agentguard._core.ledger import Ledger as Ledger
    from pytest_agentguard._core.plan import End as End
    from pytest_agentguard._core.plan import Plan as Plan
    from pytest_agentguard._core.reply import (
        Reply as Reply,
    )
    from pytest_agentguard._core.scenario import (
        Cancel as Cancel,
    )
    from pytest_agentguard._core.scenario import (
        FetchCall as FetchCall,
    )
    from pytest_agentguard._core.scenario import (
        FetchScript as FetchScript,
    )
    from pytest_agentguard._core.scenario import (
        Lane as Lane,
    )
    from pytest_agentguard._core.scenario import (
        Route as Route,
    )
    from pytest_agentguard._core.scenario import (
        Scenario as Scenario,
    )
    from pytest_agentguard._core.scenario import (
        Setup as Setup,
    )
    from pytest_agentguard._core.scenario import (
        Variant as Variant,
    )
    from pytest_agentguard._core.script import (
        AFTER_FINISH as AFTER_FINISH,
    )
    from pytest_agentguard._core.script import (
        BEFORE_FINISH as BEFORE_FINISH,
    )
    from pytest_agentguard._core.script import (
        END as END,
    )
    from pytest_agentguard._core.script import (
        START as START,
    )
    from pytest_agentguard._core.script import (
        Where as Where,
    )
    from pytest_agentguard._core.script import (
        after_event as after_event,
    )
    from pytest_agentguard._core.script import (
        at_byte as at_byte,
    )
    from pytest_agentguard._core.sse import (
        Decoder as Decoder,
    )
    from pytest_agentguard._core.sse import (
        ServerSentEvent as ServerSentEvent,
    )
    from pytest_agentguard._core.sse import (
        encode_event as encode_event,
    )
    from pytest_agentguard._core.turn import (
        Frame as Frame,
    )
    from pytest_agentguard._core.turn import (
        Ids as Ids,
    )
    from pytest_agentguard._core.turn import (
        Text as Text,
    )
    from pytest_agentguard._core.turn import (
        ToolCall as ToolCall,
    )
    from pytest_agentguard._core.turn import (
        Turn as Turn,
    )
    from pytest_agentguard._core.verdict import (
        Finding as Finding,
    )
    from pytest_agentguard._core.verdict import (
        Invariant as Invariant,
    )
    from pytest_agentguard._core.verdict import (
        Level as Level,
    )
    from pytest_agentguard._core.verdict import (
        Outcome as Outcome,
    )
    from pytest_agentguard._core.verdict import (
        Verdict as Verdict,
    )
    from pytest_agentguard._core.verdict import (
        exercised as exercised,
    )
    from pytest_agentguard._core.verdict import (
        judge as judge,
    )
    from pytest_agentguard._core.verdict import (
        violated as violated,
    )

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}._core.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
