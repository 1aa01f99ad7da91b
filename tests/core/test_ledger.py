"""The ledger: order, bound, index, lanes, joins, and several threads at once."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, Thread
from typing import Any

import pytest

from pytest_agentguard import Ledger
from pytest_agentguard._core.joins import join
from pytest_agentguard.events import (
    CallOffered,
    Claim,
    Event,
    LedgerFull,
    RunEnded,
    RunStarted,
    StreamEnded,
    ToolFinished,
    ToolStarted,
    Witness,
)

AGENT, ENDPOINT, SPY, RUNNER = Witness.AGENT, Witness.ENDPOINT, Witness.TOOL_SPY, Witness.RUNNER


def claim(what: str, lane: str = "") -> Claim:
    return Claim(witness=AGENT, what=what, lane=lane)


def words(ledger: Ledger) -> list[str]:
    return [event.what for event in ledger.of(Claim)]


# -- order and bound ------------------------------------------------------------------------------------


def test_facts_keep_the_order_in_which_they_were_recorded() -> None:
    ledger = Ledger()
    ledger.record(Claim, witness=AGENT, what="a")
    ledger.append(claim("b"))
    ledger.record(Claim, witness=AGENT, what="c")
    assert [(event.seq, event.what) for event in ledger.of(Claim)] == [(1, "a"), (2, "b"), (3, "c")]
    assert len(ledger) == 3
    assert repr(ledger) == "<Ledger events=3>"


def test_reading_between_writes_sees_what_is_there() -> None:
    ledger = Ledger([claim("a")])
    assert words(ledger) == ["a"]
    ledger.append(claim("b"))
    assert words(ledger) == ["a", "b"]


def test_the_clock_is_read_at_each_fact_and_a_given_time_is_kept() -> None:
    times = iter([1.0, 2.0])
    ledger = Ledger(clock=lambda: next(times))
    ledger.record(Claim, witness=AGENT, what="a")
    ledger.append(Claim(witness=AGENT, what="b", t=9.0))
    ledger.append(claim("c"))
    assert [event.t for event in ledger] == [1.0, 9.0, 2.0]


def test_seq_and_time_take_no_part_in_comparison() -> None:
    assert Claim(witness=AGENT, what="a", seq=1, t=2.0) == claim("a")


@pytest.mark.parametrize("more", [0, 1, 5])
def test_the_bound_is_recorded_once_and_what_follows_is_dropped(more: int) -> None:
    ledger = Ledger(limit_events=3)
    for n in range(3 + more):
        ledger.record(Claim, witness=AGENT, what=str(n))
        ledger.append(claim("x")) if n >= 3 else None
    assert words(ledger) == ["0", "1", "2"]
    full = LedgerFull(witness=Witness.LEDGER, limit_events=3)
    assert list(ledger)[3:] == ([full] if more else [])


def test_a_fact_with_an_unknown_field_is_wrong_use_when_read() -> None:
    ledger = Ledger()
    ledger.record(Claim, witness=AGENT, what="a", colour="red")
    with pytest.raises(TypeError):
        list(ledger)


# -- index ------------------------------------------------------------------------------------------------


@pytest.fixture
def tools() -> Ledger:
    return Ledger(
        [
            ToolStarted(witness=SPY, tool="a", invocation="1", arguments={"x": 1}),
            ToolStarted(witness=SPY, tool="b", invocation="2"),
            ToolFinished(witness=SPY, tool="a", invocation="1"),
            ToolStarted(witness=SPY, tool="a", invocation="3"),
        ]
    )


def test_of_gives_one_kind_with_the_given_values(tools: Ledger) -> None:
    assert [e.invocation for e in tools.of(ToolStarted)] == ["1", "2", "3"]
    assert [e.invocation for e in tools.of(ToolStarted, tool="a")] == ["1", "3"]
    assert [e.invocation for e in tools.of(ToolStarted, tool="a", invocation="3")] == ["3"]
    assert tools.of(ToolStarted, invocation="3", tool="b") == ()
    assert tools.of(ToolStarted, tool="c") == ()
    assert tools.of(Claim) == ()


def test_of_takes_values_that_cannot_be_keys(tools: Ledger) -> None:
    assert [e.invocation for e in tools.of(ToolStarted, arguments={"x": 1})] == ["1"]
    assert [e.invocation for e in tools.of(ToolStarted, tool="a", arguments={})] == ["3"]


def test_of_an_unknown_field_is_wrong_use(tools: Ledger) -> None:
    with pytest.raises(AttributeError):
        tools.of(ToolStarted, colour="red")


def test_first_before_and_after(tools: Ledger) -> None:
    finished = tools.first(ToolFinished)
    assert finished is not None
    assert [e.invocation for e in tools.before(finished, ToolStarted)] == ["1", "2"]
    assert [e.invocation for e in tools.after(finished, ToolStarted, tool="a")] == ["3"]
    assert tools.first(Claim) is None


def test_the_first_after_an_event_is_later_than_it(tools: Ledger) -> None:
    one, _, three = tools.of(ToolStarted)
    assert tools.first_after(one, ToolStarted, tool="a") is three
    assert tools.first_after(three, ToolStarted) is None
    assert tools.first_after(one, Claim) is None


@pytest.mark.parametrize("count", [1, 4, 5, 60])
def test_of_finds_the_same_among_few_and_many(count: int) -> None:
    ledger = Ledger(
        ToolStarted(witness=SPY, tool="ab"[n % 2], invocation=str(n % 3), arguments={"n": n % 2})
        for n in range(count)
    )
    everything = ledger.of(ToolStarted)
    for tool in "abc":
        assert ledger.of(ToolStarted, tool=tool) == tuple(e for e in everything if e.tool == tool)
        both = tuple(e for e in everything if (e.tool, e.invocation) == (tool, "1"))
        assert ledger.of(ToolStarted, tool=tool, invocation="1") == both
        assert ledger.of(ToolStarted, invocation="1", tool=tool) == both
    assert ledger.of(ToolStarted, arguments={"n": 0}) == everything[::2]
    assert ledger.of(ToolStarted, tool="b", arguments={"n": 0}) == ()
    with pytest.raises(AttributeError):
        ledger.of(ToolStarted, colour="red")


def test_an_answer_is_remembered_until_something_is_added() -> None:
    asked: list[int] = []

    def question(ledger: Ledger) -> int:
        asked.append(len(ledger))
        return len(ledger)

    ledger = Ledger([claim("a")])
    assert [ledger.remembered(question), ledger.remembered(question)] == [1, 1]
    ledger.append(claim("b"))
    assert [ledger.remembered(question), ledger.remembered(question)] == [2, 2]
    assert asked == [1, 2]


def test_what_is_added_later_is_not_in_a_ledger_that_stands_still() -> None:
    ledger = Ledger([claim("a")])
    still = ledger.still()
    ledger.append(claim("b"))
    assert (words(still), words(ledger)) == (["a"], ["a", "b"])
    assert still.still() is still


def test_run_and_end_are_what_the_runner_saw() -> None:
    ledger = Ledger([RunStarted(witness=RUNNER, agent="a"), RunEnded(witness=RUNNER, how="returned")])
    assert ledger.run is not None
    assert ledger.end is not None
    assert (ledger.run.agent, ledger.end.how) == ("a", "returned")
    assert (Ledger().run, Ledger().end) == (None, None)


# -- lanes ------------------------------------------------------------------------------------------------


def test_facts_without_a_lane_belong_to_every_lane() -> None:
    ledger = Ledger([claim("1", "a"), claim("all"), claim("2", "b"), claim("3", "a")])
    lanes = ledger.by_lane()
    assert ledger.lanes == ("a", "b")
    assert {name: words(lane) for name, lane in lanes.items()} == {"a": ["1", "all", "3"], "b": ["all", "2"]}
    assert [event.seq for event in lanes["a"]] == [1, 2, 4]


def test_a_lone_lane_is_all_of_the_ledger() -> None:
    ledger = Ledger([claim("all"), claim("1", "a")])
    assert {name: words(lane) for name, lane in ledger.by_lane().items()} == {"a": ["all", "1"]}


def test_a_ledger_without_lanes_has_none() -> None:
    assert (Ledger([claim("a")]).lanes, Ledger([claim("a")]).by_lane()) == ((), {})


def test_other_sources_are_merged_by_time_at_each_reading() -> None:
    journal: list[tuple[float, type[Event], dict[str, Any]]] = []
    ledger = Ledger()
    ledger.also_read(lambda: iter(journal))
    ledger.append(Claim(witness=AGENT, what="b", t=2.0))
    assert words(ledger) == ["b"]
    journal.append((1.0, Claim, {"witness": AGENT, "what": "a"}))
    journal.append((3.0, Claim, {"witness": AGENT, "what": "c"}))
    assert words(ledger) == ["a", "b", "c"]


# -- joins ------------------------------------------------------------------------------------------------


def offered(stream: str, tool: str = "record", *, nonce: str = "", **more: Any) -> CallOffered:
    raw = more.pop("arguments", f'{{"x": "{nonce}"}}')
    call = more.pop("call", f"{stream}.c1")
    return CallOffered(
        witness=ENDPOINT, stream=stream, call=call, tool=tool, nonce=nonce, arguments=raw, **more
    )


def ended(stream: str, complete: bool, lane: str = "") -> StreamEnded:
    return StreamEnded(witness=ENDPOINT, stream=stream, complete=complete, lane=lane)


def started(tool: str = "record", lane: str = "", **arguments: Any) -> ToolStarted:
    return ToolStarted(witness=SPY, tool=tool, arguments=arguments, lane=lane)


def calls(*events: Event) -> list[str]:
    return [event.call for event in Ledger(events).of(ToolStarted)]


def test_a_start_belongs_to_the_offer_whose_nonce_it_carries() -> None:
    one, two = offered("s1", nonce="kaaaaaa"), offered("s2", nonce="kbbbbbb")
    assert calls(one, two, started(x="kbbbbbb"), started(x="-kaaaaaa-")) == ["s2.c1", "s1.c1"]


def test_a_nonce_deep_inside_the_arguments_counts() -> None:
    assert calls(offered("s1", nonce="kaaaaaa"), offered("s2"), started(x={"y": ["kaaaaaa"]})) == ["s1.c1"]


def test_a_nonce_in_arguments_that_json_lacks_counts() -> None:
    assert calls(offered("s1", nonce="kaaaaaa"), started(x={("kaaaaaa",): 1})) == ["s1.c1"]


def test_without_its_nonce_a_start_belongs_to_the_offer_of_its_tool() -> None:
    assert calls(offered("s1", nonce="kaaaaaa"), offered("s2", "other"), started(x="kaa")) == ["s1.c1"]


def test_among_offers_of_one_tool_equal_arguments_decide() -> None:
    one, two = offered("s1", arguments='{"x": "1"}'), offered("s2", arguments='{"x": "2"}')
    assert calls(one, two, ended("s1", True), ended("s2", False), started(x="2")) == ["s2.c1"]


def test_another_tool_that_runs_with_the_nonce_of_a_call_belongs_to_that_call() -> None:
    assert calls(offered("s1", "nope", nonce="kaaaaaa"), started("record", x="kaaaaaa")) == ["s1.c1"]


def test_a_start_that_fits_nothing_stays_alone() -> None:
    (event,) = Ledger([offered("s1", "other", nonce="kaaaaaa"), started(x="1")]).of(ToolStarted)
    assert (event.stream, event.call) == ("", "")


def test_a_start_that_fits_complete_and_cut_calls_is_ambiguous() -> None:
    facts = [offered("s1"), ended("s1", False), offered("s2"), ended("s2", True), started(x="?")]
    ledger = Ledger(facts)
    (event,) = ledger.ambiguous
    assert (event.stream, event.call) == ("?", "?")


def test_a_start_that_fits_several_cut_calls_is_not_ambiguous() -> None:
    facts = [offered("s1"), ended("s1", False), offered("s2"), ended("s2", False), started(x="?")]
    assert Ledger(facts).ambiguous == ()


def test_a_later_offer_is_never_joined() -> None:
    facts = [offered("s1"), started(x="?"), ended("s1", False), offered("s2"), ended("s2", True)]
    assert calls(*facts) == ["s1.c1"]
    assert calls(started(x="?"), offered("s1")) == [""]


def test_equal_offers_take_their_starts_in_turn() -> None:
    one, two = offered("s1", call="s1.c1"), offered("s1", call="s1.c2")
    assert calls(one, two, started(x=""), started(x=""), started(x="")) == ["s1.c1", "s1.c2", "s1.c1"]


def test_a_start_is_joined_within_its_lane() -> None:
    one, two = offered("s1", lane="a"), offered("s2", lane="b")
    facts = [one, two, ended("s1", True, "a"), ended("s2", False, "b"), started(lane="b", x="")]
    assert calls(*facts) == ["s2.c1"]


def test_a_start_that_names_its_stream_is_left_alone() -> None:
    named = ToolStarted(witness=SPY, tool="record", stream="s9", call="c9")
    assert join([offered("s1"), named])[1] is named


# -- threads ----------------------------------------------------------------------------------------------


def together(count: int, work: Any) -> None:
    barrier = Barrier(count)
    failed: list[BaseException] = []

    def run(n: int) -> None:
        barrier.wait(5)
        try:
            work(n)
        except BaseException as problem:
            failed.append(problem)

    threads = [Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)


def test_threads_lose_no_fact_and_keep_their_own_order() -> None:
    ledger = Ledger()

    def write(n: int) -> None:
        for k in range(300):
            ledger.record(Claim, witness=AGENT, what=str(n), value=str(k))

    together(4, write)
    assert len(ledger) == 1200
    for n in range(4):
        assert [int(e.value) for e in ledger.of(Claim, what=str(n))] == list(range(300))


def test_threads_that_reach_the_bound_together_record_it_once() -> None:
    ledger = Ledger(limit_events=100)

    def write(n: int) -> None:
        for _ in range(100):
            ledger.record(Claim, witness=AGENT, what=str(n))

    together(4, write)
    assert len(ledger.of(LedgerFull)) == 1
    assert len(ledger.of(Claim)) < 100 + 4


def test_reading_while_others_write_sees_a_growing_beginning() -> None:
    ledger = Ledger()

    def work(n: int) -> None:
        if n:
            for k in range(300):
                ledger.record(Claim, witness=AGENT, what=str(n), value=str(k))
            return
        before: list[Event] = []
        for seen in snapshots(ledger):
            assert seen[: len(before)] == before
            assert len(ledger.of(Claim)) >= len(seen)
            before = seen

    together(3, work)
    assert len(ledger) == 600


def snapshots(ledger: Ledger) -> Iterator[list[Event]]:
    for _ in range(40):
        yield list(ledger)
