"""Chat replies that are complete, and whose arguments are no JSON object or not what the schema allows."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agentguard import PURGE, RECORD, REMOVE, SHELL, Reply, Scenario, ToolSpec
from pytest_agentguard.scenarios._replies import BROKEN_JSON, then_answer, then_recover

_SET_LEVEL = ToolSpec(
    name="set_level",
    description="Set the level of a reservoir.",
    parameters={
        "type": "object",
        "properties": {"note": {"type": "string"}, "level": {"type": "number"}},
        "required": ["note", "level"],
        "additionalProperties": False,
    },
)
_SET_MODE = ToolSpec(
    name="set_mode",
    description="Set the mode of a plant.",
    parameters={
        "type": "object",
        "properties": {"note": {"type": "string"}, "mode": {"type": "string", "enum": ["safe", "fast"]}},
        "required": ["note", "mode"],
        "additionalProperties": False,
    },
)

_DEEP = "[" * 5_000 + "]" * 5_000

# id, tool, raw arguments, what is wrong with them
_NOT_JSON: tuple[tuple[str, ToolSpec, str, str], ...] = (
    ("trailing-garbage", RECORD, '{"x": "{nonce}-evidence"} and so on', "prose follows the object"),
    ("byte-order-mark", RECORD, '\ufeff{"x": "{nonce}-evidence"}', "a byte-order mark comes first"),
    ("half-object", SHELL, '{"command":', "they end after the first key"),
    ("half-value", RECORD, '{"x": "{nonce}-evi', "they end inside the first value"),
    ("half-pair", REMOVE, '{"path": "{nonce}/data"', "they end after a whole first key, before the flag"),
    ("one-brace", PURGE, "{", "they consist of one brace"),
    ("raw-command", SHELL, "rm -rf {nonce}/build", "they are a command line, not JSON"),
    ("single-quotes", RECORD, "{'x': '{nonce}-evidence'}", "their quotes are Python's"),
    ("code-fence", RECORD, '```json\n{"x": "{nonce}-evidence"}\n```', "they stand in a code fence"),
    ("two-objects", RECORD, '{"x": "{nonce}-one"}{"x": "{nonce}-two"}', "they are two objects in a row"),
)
_NOT_AN_OBJECT: tuple[tuple[str, ToolSpec, str, str], ...] = (
    ("array", RECORD, '["{nonce}-evidence"]', "they are an array"),
    ("bare-string", RECORD, '"{nonce}-evidence"', "they are a string"),
    ("null", PURGE, "null", "they are null"),
)
_AGAINST_SCHEMA: tuple[tuple[str, ToolSpec, str, str], ...] = (
    ("nan", _SET_LEVEL, '{"note": "{nonce}", "level": NaN}', "a number is NaN"),
    ("infinity", _SET_LEVEL, '{"note": "{nonce}", "level": -Infinity}', "a number is minus infinity"),
    ("overflow", _SET_LEVEL, '{"note": "{nonce}", "level": 1e999}', "a number is larger than any float"),
    ("missing-required", RECORD, '{"y": "{nonce}-note"}', "a required argument is missing"),
    ("wrong-type", RECORD, '{"x": ["{nonce}-evidence"]}', "a string is a list"),
    ("flag-as-text", REMOVE, '{"path": "{nonce}/data", "dry_run": "false"}', "a flag is text"),
    ("enumeration", _SET_MODE, '{"note": "{nonce}", "mode": "turbo"}', "a value is not in its enumeration"),
    ("deep-nesting", RECORD, '{"x": "{nonce}", "y": ' + _DEEP + "}", "a string is 5,000 nested lists"),
)
# Whole bodies go through another reader, and their arguments through the same parser: some are enough there.
_IN_BLOCKS = (
    "trailing-garbage",
    "half-pair",
    "one-brace",
    "bare-string",
    "nan",
    "missing-required",
    "wrong-type",
)


def _broken() -> Iterator[Scenario]:
    for entries, without in ((_NOT_JSON, BROKEN_JSON), (_NOT_AN_OBJECT, ())):
        for id, tool, raw, words in entries:
            yield Scenario(
                id=f"broken-{id}",
                summary=f"The turn is complete, and its arguments are no JSON object: {words}.",
                invariants=("no-tool-on-broken-arguments",),
                script=then_recover(
                    Reply().call(tool.name, raw=raw, problem="broken").named(f"arguments: {words}")
                ),
                tools=_offered(tool),
                modes=("stream", "block") if id in _IN_BLOCKS else ("stream",),
                without=without,
                requirements=("A25",),
                hint="What is not a JSON object has no arguments in it; whatever runs was made up.",
            )


def _invalid() -> Iterator[Scenario]:
    for id, tool, raw, words in _AGAINST_SCHEMA:
        yield Scenario(
            id=f"invalid-{id}",
            summary=f"The turn is complete, and its arguments are against the tool's schema: {words}.",
            invariants=("no-tool-on-invalid-arguments",),
            script=then_recover(
                Reply().call(tool.name, raw=raw, problem="invalid").named(f"arguments: {words}")
            ),
            tools=_offered(tool),
            modes=("stream", "block") if id in _IN_BLOCKS else ("stream",),
            requirements=("A41",),
            hint="The tool said what it takes, and this is something else.",
        )


def _offered(tool: ToolSpec) -> tuple[ToolSpec, ...]:
    return (tool,) if tool is RECORD else (tool, RECORD)


_WHOLE = (
    Scenario(
        id="unknown-extra",
        summary="The arguments have a member that the schema does not know and forbids.",
        invariants=("no-tool-on-invalid-arguments",),
        script=then_recover(
            Reply()
            .call("record", raw='{"x": "{nonce}-evidence", "z": "extra"}', problem="extra")
            .named("arguments: an unknown extra member")
        ),
        hint="The model meant something by it; a tool that ignores it does something else.",
    ),
    Scenario(
        id="duplicate-keys",
        summary="The arguments have the same key twice.",
        invariants=("tool-runs-once", "nothing-dropped-in-silence"),
        script=then_answer(Reply().call("record", raw='{"x": "{nonce}-first", "x": "{nonce}-second"}')),
        hint="JSON leaves it open; the last value or a refusal are what everybody expects.",
    ),
    Scenario(
        id="huge-arguments",
        summary="An argument is one mebibyte long, in good order.",
        invariants=("tool-runs-once", "nothing-dropped-in-silence"),
        script=then_answer(Reply().call("record", x="{nonce}-" + "evidence" * (128 * 1024))),
        hint="Long arguments arrive whole or are refused, and are never shortened.",
    ),
)

SCENARIOS = (*_broken(), *_invalid(), *_WHOLE)
