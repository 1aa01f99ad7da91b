"""The battery as data: every script plans wherever its scenario exists, its faults lie inside the body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from pytest_agentguard import Dialect, End, Plan, Reply, Scenario, Setup, at_byte, catalogue
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.planning import Setting, plan

FINAL = "final-kabcdef"
PAIRS = [(dialect, mode) for dialect in ("openai-chat", "anthropic") for mode in ("stream", "block")]
CHAT = [s for s in catalogue.scenarios().values() if s.surface == "chat"]

STREAM_RULES = [id for id, rule in catalogue.invariants().items() if rule.family == "stream"]
STREAMED = [pair for pair in PAIRS if pair[1] == "stream"]
SOMEWHERE = {
    "marker-ends-the-wait": STREAMED,
    "partial-text-kept": STREAMED,
    "stream-and-block-agree": [("openai-chat", "both"), ("anthropic", "both")],
}
"""Where a rule applies that does not apply in every dialect and mode."""


def setting(dialect: str, mode: str, strict: bool = False) -> Setting:
    return Setting(dialect=catalogue.dialect(dialect), mode=mode, ids=CountedIds("0"), strict=strict)


def setup(dialect: str, mode: str, strict: bool = False) -> Setup:
    found: Dialect = catalogue.dialect(dialect)
    return Setup(
        dialect=found,
        mode=mode,
        final=FINAL,
        strict=strict,
        measure=lambda reply: plan(reply, setting(dialect, mode, strict)),
    )


def scripts(scenario: Scenario, dialect: str, mode: str) -> Iterator[tuple[str, Sequence[Reply]]]:
    """(label, replies) of every run and lane of a scenario."""
    if scenario.variants:
        assert scenario.vary is not None
        for variant in scenario.variants:
            given = setup(dialect, variant.mode or mode, scenario.strict)
            yield variant.label, scenario.vary(given, variant)
    elif scenario.lanes is not None:
        for lane in scenario.lanes(setup(dialect, mode, scenario.strict)):
            yield lane.label, lane.replies
    else:
        assert scenario.script is not None
        yield "", scenario.script(setup(dialect, mode, scenario.strict))


@cache
def plans(id: str, dialect: str, mode: str) -> tuple[tuple[str, tuple[Reply, ...], tuple[Plan, ...]], ...]:
    """Every run and lane of a scenario, planned; of a long sweep the first, the last and every 41st lane."""
    scenario = catalogue.scenarios()[id]
    runs = list(scripts(scenario, dialect, mode))
    made = []
    for label, replies in runs if len(runs) <= 100 else [*runs[::41], runs[-1]]:
        given = setting(dialect, label if mode == "both" else mode, scenario.strict)
        made.append((label, tuple(replies), tuple(plan(reply, given) for reply in replies)))
    return tuple(made)


def modes_of(scenario: Scenario) -> list[tuple[str, str]]:
    """Every dialect and mode in which the scenario exists."""
    both = [("openai-chat", "both"), ("anthropic", "both")]
    return [pair for pair in [*PAIRS, *both] if scenario.covers(*pair)]


def replies_of(scenario: Scenario) -> Iterator[tuple[str, Reply, Plan, bool]]:
    """(where, reply, plan, whether it is the first of its script) of everything in a scenario."""
    for dialect, mode in modes_of(scenario):
        for label, replies, planned in plans(scenario.id, dialect, mode):
            for n, (reply, made) in enumerate(zip(replies, planned, strict=True)):
                yield f"{dialect} {mode} {label} {reply.label}", reply, made, n == 0


every_scenario = pytest.mark.parametrize("scenario", CHAT, ids=lambda scenario: scenario.id)


@every_scenario
def test_script_plans_and_its_faults_lie_inside_the_body(scenario: Scenario) -> None:
    assert modes_of(scenario)
    for where, _, made, _ in replies_of(scenario):
        assert made.delivered(made.last).fired, where
        assert made.stop is None or 0 <= made.stop <= len(made.body), where


@every_scenario
def test_only_the_first_reply_is_required(scenario: Scenario) -> None:
    for where, reply, _, is_first in replies_of(scenario):
        answers = scenario.control or scenario.id == "text-only"
        unsent = scenario.cancel is not None and scenario.cancel.at == "before-send"
        assert reply.is_optional is not (is_first and not unsent) or answers, where


@every_scenario
def test_spoiled_reply_never_holds_the_final_answer(scenario: Scenario) -> None:
    for where, reply, made, _ in replies_of(scenario):
        assert not reply.fault or FINAL.encode() not in made.body, where


@every_scenario
def test_first_reply_is_incomplete_where_the_rules_are_about_that(scenario: Scenario) -> None:
    about = {"no-tool-on-incomplete-stream", "no-success-on-incomplete-stream"}
    for where, _, made, is_first in replies_of(scenario):
        if is_first and about & set(scenario.invariants):
            assert not made.delivered(made.last).complete, where


@every_scenario
def test_body_that_is_not_spoiled_is_json_where_it_is_not_streamed(scenario: Scenario) -> None:
    deep = scenario.id == "invalid-deep-nesting"  # JSON, but deeper than Python's own parser goes
    for where, reply, made, _ in replies_of(scenario):
        streamed = dict(made.headers)["Content-Type"] != "application/json"
        if not (streamed or deep) and made.stop is None and reply.http is None:
            assert isinstance(json.loads(made.body), dict), where


def test_ids_are_unique_readable_and_short() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){0,4}", s.id) for s in CHAT), [s.id for s in CHAT]
    assert max(len(s.id) for s in CHAT) <= 32


def test_every_scenario_says_what_it_is_and_why_it_matters() -> None:
    for scenario in CHAT:
        assert scenario.summary.endswith("."), scenario.id
        assert scenario.hint.endswith("."), scenario.id
        assert scenario.invariants, scenario.id


def test_exactly_one_scenario_is_the_control() -> None:
    assert [s.id for s in CHAT if s.control] == ["control"]


def test_control_comes_first_and_what_takes_all_of_a_machine_last() -> None:
    everything = list(catalogue.scenarios().values())
    assert everything[0].control
    heavy = [scenario.heavy for scenario in everything]
    assert heavy == sorted(heavy)
    swept = {"cut-after-every-byte", "cut-up-to-the-marker", "split-at-every-byte"}
    assert {s.id for s in everything if s.heavy} == swept | {s.id for s in everything if s.memory}


def test_lane_labels_are_unique_and_fit_into_a_path() -> None:
    for scenario in CHAT:
        for dialect, mode in modes_of(scenario):
            labels = [label for label, _, _ in plans(scenario.id, dialect, mode)]
            assert len(set(labels)) == len(labels), scenario.id
            assert all(re.fullmatch(r"[a-z0-9-]*", label) for label in labels), scenario.id


def test_declared_rules_exist() -> None:
    declared = {id for scenario in CHAT for id in scenario.invariants}
    assert declared <= set(catalogue.invariants())


@pytest.mark.parametrize("rule", STREAM_RULES)
def test_every_stream_rule_has_an_occasion_wherever_it_applies(rule: str) -> None:
    given = [s for s in CHAT if rule in s.invariants and not s.strict]
    for dialect, mode in SOMEWHERE.get(rule, PAIRS):
        assert any(s.covers(dialect, mode) for s in given), (dialect, mode)


def test_modes_are_compared_in_runs_of_both() -> None:
    compared = [s for s in CHAT if "stream-and-block-agree" in s.invariants]
    assert compared
    assert all({variant.mode for variant in s.variants} == {"stream", "block"} for s in compared)


def first(id: str, dialect: str, mode: str = "stream") -> Plan:
    return plans(id, dialect, mode)[0][2][0]


def position(id: str, dialect: str, mode: str, what: str) -> int:
    return next(mark.at for mark in first(id, dialect, mode).marks if mark.what == what)


# -- sweeps -----------------------------------------------------------------------------------------


@pytest.mark.requirement("D02")
@pytest.mark.parametrize(("dialect", "mode"), PAIRS)
def test_cut_sweep_has_a_lane_for_every_byte_up_to_the_finish_event(dialect: str, mode: str) -> None:
    finish = position("cut-after-every-byte", dialect, mode, "finish-starts")
    lanes = list(scripts(catalogue.scenarios()["cut-after-every-byte"], dialect, mode))
    step = 1 if mode == "stream" else 7  # cut anywhere, a whole body is broken JSON
    assert [replies[0].stop_at for _, replies in lanes] == [at_byte(n) for n in range(0, finish + 1, step)]
    assert len(lanes) >= 1_000 or mode == "block"


@pytest.mark.requirement("D02")
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_event_sweep_ends_after_every_event_in_every_way(dialect: str) -> None:
    lanes = plans("end-after-every-event", dialect, "stream")
    finish = position("end-after-every-event", dialect, "stream", "finish-starts")
    marks = first("end-after-every-event", dialect).marks
    events = [0, *(mark.at for mark in marks if mark.what == "event" and mark.at <= finish)]
    ends = {(planned[0].last, planned[0].end, planned[0].framing) for _, _, planned in lanes}
    ways = [(End.CLEAN, "chunked"), (End.CLEAN, "close"), (End.CUT, "chunked"), (End.RESET, "chunked")]
    assert ends == {(at, *way) for at in events for way in ways}
    assert len(events) >= 5


@pytest.mark.requirement("D03")
@pytest.mark.parametrize(("dialect", "mode"), PAIRS)
def test_split_sweep_has_a_lane_for_every_byte_boundary(dialect: str, mode: str) -> None:
    body = first("split-at-every-byte", dialect, mode).body
    lanes = list(scripts(catalogue.scenarios()["split-at-every-byte"], dialect, mode))
    apart, step = -(-len(body) // 4), 1 if mode == "stream" else 7
    at = [tuple(range(n, len(body), apart)) for n in range(0, apart, step)]
    assert [replies[0].chunks.at for _, replies in lanes] == at
    if mode == "stream":
        assert {at for _, replies in lanes for at in replies[0].chunks.at} >= set(range(1, len(body)))
    assert any(byte & 0xC0 == 0x80 for byte in body)


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_strict_sweep_covers_what_the_default_one_leaves_out(dialect: str) -> None:
    finish, marker = (
        position("cut-up-to-the-marker", dialect, "stream", what) for what in ("finish-starts", "marker")
    )
    lanes = scripts(catalogue.scenarios()["cut-up-to-the-marker"], dialect, "stream")
    assert [replies[0].stop_at for _, replies in lanes] == [at_byte(n) for n in range(finish + 1, marker)]


# -- what single scenarios promise ------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
@pytest.mark.parametrize(
    "id", ["cut-inside-value", "cut-into-defaults", "cut-command-line", "stall-inside-value"]
)
def test_cut_inside_a_value_leaves_the_nonce_and_not_the_quote(id: str, dialect: str) -> None:
    made = first(id, dialect)
    delivered = made.delivered(made.last)
    nonce = next(note.fields["nonce"] for _, note in made.notes if "nonce" in note.fields)
    assert nonce in delivered.arguments[0]
    with pytest.raises(ValueError, match="Unterminated string"):
        json.loads(delivered.arguments[0])


@pytest.mark.parametrize(("dialect", "mode"), PAIRS)
def test_cut_after_the_first_key_leaves_a_whole_member(dialect: str, mode: str) -> None:
    made = first("cut-after-first-key", dialect, mode)
    assert set(json.loads(made.delivered(made.last).arguments[0] + "}")) == {"path"}


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_cut_before_the_arguments_has_begun_the_call(dialect: str) -> None:
    made = first("cut-before-arguments", dialect)
    delivered = made.delivered(made.last)
    assert (delivered.begun, delivered.whole, delivered.arguments) == (("s1.c1",), (), ("",))


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_cut_before_the_finish_has_whole_arguments(dialect: str) -> None:
    made = first("cut-before-finish", dialect)
    assert made.delivered(made.last).whole == ("s1.c1",)


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
@pytest.mark.parametrize(
    "id", [s.id for s in CHAT if s.id.startswith("broken-") and s.id != "broken-beside-whole"]
)
def test_broken_arguments_are_no_json_object(id: str, dialect: str) -> None:
    raw = next(note.fields["arguments"] for _, note in first(id, dialect).notes if "arguments" in note.fields)
    try:
        assert not isinstance(json.loads(raw), dict)
    except ValueError:
        pass


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_slow_reply_is_longer_than_the_idle_timeout_and_never_silent_for_it(dialect: str) -> None:
    scenario = catalogue.scenarios()["healthy-slow-stream"]
    pauses = [move.seconds for _, move in first("healthy-slow-stream", dialect).moves]
    idle = scenario.limits.idle_timeout
    assert idle is not None
    assert sum(pauses) > 1.5 * idle
    assert max(pauses) < idle / 3


@pytest.mark.parametrize(
    "scenario", [s for s in CHAT if s.limits.idle_timeout or s.limits.deadline], ids=lambda s: s.id
)
def test_holds_are_released_long_after_the_limit_under_test(scenario: Scenario) -> None:
    limit = scenario.limits.idle_timeout or scenario.limits.deadline
    assert limit is not None
    for dialect, mode in PAIRS:
        if not scenario.covers(dialect, mode):
            continue
        for _, _, planned in plans(scenario.id, dialect, mode):
            holds = [move.limit for made in planned for _, move in made.moves if hasattr(move, "limit")]
            assert all(hold >= max(10 * limit, 5.0) or scenario.together for hold in holds)
            assert all(hold < scenario.seconds for hold in holds)


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_memory_scenarios_send_eight_and_sixty_four_mebibytes(dialect: str) -> None:
    for scenario in (s for s in CHAT if s.memory):
        sizes = [
            next(move.size for _, move in planned[0].moves if hasattr(move, "size"))
            for _, _, planned in plans(scenario.id, dialect, scenario.modes[0])
        ]
        assert sizes == [8 * 1024 * 1024, 64 * 1024 * 1024], scenario.id
