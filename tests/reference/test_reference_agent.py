"""The reference through the real endpoint: on asyncio, on trio and in plain threads, healthy and faulty."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio
from reference_kit import ANSWER, BOUND, CALL, DIALECTS, FINAL, MODES, WAYS, run, run_async, stage

from pytest_agentguard import AFTER_FINISH, PURGE, RECORD, SHELL, START, Behaviour, Reply, ToolSpec
from pytest_agentguard.events import StreamReleased, TranscriptRejected
from pytest_agentguard.reference import errors
from pytest_agentguard.reference.loop import Agent
from pytest_agentguard.reference.threads import ThreadAgent

MIB = 1024 * 1024
each_way = pytest.mark.parametrize("way", WAYS)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_mode = pytest.mark.parametrize("mode", MODES)

# what comes instead of a whole turn, and what is raised then
FAULTS = {
    "cut": (CALL.cut(), errors.IncompleteReply),
    "cut inside the value": (CALL.cut(inside="x"), errors.IncompleteReply),
    "cut after the finish reason": (CALL.cut(AFTER_FINISH), errors.IncompleteReply),
    "close": (CALL.cut(framing="close"), errors.IncompleteReply),
    "protocol cut": (CALL.protocol_cut(), errors.ConnectionLost),
    "reset": (CALL.reset(), errors.ConnectionLost),
    "error event": (CALL.error("overloaded"), errors.Overloaded),
    "error event, then done": (CALL.error("rate-limit", then="done"), errors.RateLimited),
    "error event, then the rest": (CALL.error("server", then="rest"), errors.ServerFailed),
    "nothing": (Reply().nothing(), errors.EmptyReply),
    "only the marker": (Reply().only_done(), errors.EmptyReply),
    "only keep-alives": (Reply().keep_alive(START, count=3).nothing(), errors.EmptyReply),
    "an event without an end": (CALL.flood("event", 2 * MIB), errors.ReplyTooLarge),
}
FAULTS_OF_BOTH_MODES = {
    "length": (CALL.finish("length"), errors.OutputLimit),
    "filter": (CALL.finish("filter"), errors.Refused),
    "refusal": (CALL.finish("refusal"), errors.Refused),
    "unknown": (CALL.finish("unknown"), errors.UnknownFinish),
    "missing": (CALL.finish("missing"), errors.IncompleteReply),
    "html": (Reply().html(), errors.NotAReply),
    "challenge": (Reply().challenge(), errors.NotAReply),
    "wrong type": (CALL.typed("text/plain"), errors.NotAReply),
    "json error": (Reply().json_error("overloaded"), errors.Overloaded),
    "other json": (Reply().body(b'{"status":"ok"}'), errors.ReplyError),
    "503": (Reply().status(503), errors.Overloaded),
    "401": (Reply().status(401), errors.AuthFailed),
    "429": (Reply().status(429), errors.RateLimited),
    "context": (Reply().status(400, "context"), errors.ContextOverflow),
    "400": (Reply().status(400), errors.BadRequest),
    "redirect": (Reply().redirect("http://127.0.0.1:9/"), errors.Redirected),
    "no id": (Reply().call("record", x="1", id=None), errors.BrokenReply),
    "one id for two": (
        Reply().call("record", x="1", id="same").call("record", x="2", id="same"),
        errors.BrokenReply,
    ),
    "calls and no call": (Reply().text("Wait.").finish("tool_calls"), errors.BrokenReply),
    "no words": (Reply().text("", ""), errors.EmptyReply),
}


class SmallAgent(Agent):
    """The reference with a smaller bound, which is reached sooner."""

    def bounds_of(self, limits):
        return replace(super().bounds_of(limits), stream_bytes=MIB)


@each_way
@each_dialect
@each_mode
@pytest.mark.requirement("A19")
def test_a_tool_runs_once_and_the_answer_comes_back(way, dialect, mode):
    with stage(dialect, mode, [CALL, ANSWER]) as on:
        answer = run(way, on.job())

        assert answer == FINAL
        assert [sorted(arguments) for arguments in on.ran] == [["x"]]
        assert on.ran[0]["x"].endswith("-evidence")
        assert on.asked == 2
        assert on.ledger.of(TranscriptRejected) == ()


@each_way
@each_dialect
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.requirement("A18", "A20")
def test_a_faulty_stream_raises_and_starts_no_tool(name, dialect, way):
    reply, error = FAULTS[name]
    with stage(dialect, "stream", [reply], strict=True) as on:
        with pytest.raises(error):
            run(way, on.job())

        assert on.ran == []
        assert on.asked == 1


@each_dialect
@each_mode
@pytest.mark.parametrize("name", FAULTS_OF_BOTH_MODES)
@pytest.mark.requirement("A21", "A22")
def test_a_reply_that_may_not_be_used_raises_and_starts_no_tool(name, mode, dialect):
    reply, error = FAULTS_OF_BOTH_MODES[name]
    with stage(dialect, mode, [reply]) as on:
        with pytest.raises(error):
            run("trio", on.job())

        assert on.ran == []
        assert on.asked == 1


@each_mode
@pytest.mark.requirement("A22")
def test_the_error_says_what_came_instead(mode):
    page = "<html>" + "It works! " * 100_000
    with stage("openai-chat", mode, [Reply().html(page)]) as on, pytest.raises(errors.NotAReply) as caught:
        run("asyncio", on.job())

    assert "status=200 content-type=text/html; charset=utf-8 body='<html>It works! " in str(caught.value)
    assert len(str(caught.value)) < 600
    assert len(caught.value.received) == 64 * 1024


@each_way
@each_mode
@pytest.mark.requirement("A17")
def test_silence_ends_before_the_release(way, mode):
    with stage("openai-chat", mode, [CALL.stall()]) as on:
        with pytest.raises(errors.IdleTimeout, match=r"idle_timeout=0\.5 s received=\d+ bytes"):
            run(way, on.job(idle_timeout=0.5))
        on.endpoint.settle()

        assert on.ledger.of(StreamReleased, by="limit") == ()
        assert on.ran == []


@each_way
@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"deadline": 0.6}, errors.DeadlineReached),
        ({"request_timeout": 0.6}, errors.RequestTimeout),
    ],
    ids=["deadline", "request timeout"],
)
def test_a_trickle_ends_before_the_release(way, limits, error):
    with stage("anthropic", "stream", [CALL.drip(every=0.05)]) as on:
        with pytest.raises(error):
            run(way, on.job(**limits))
        on.endpoint.settle()

        assert on.ledger.of(StreamReleased, by="limit") == ()
        assert on.ran == []


@each_way
def test_silence_up_to_the_deadline_is_reported_as_the_deadline(way):
    with stage("openai-chat", "stream", [CALL.stall()]) as on, pytest.raises(errors.DeadlineReached):
        run(way, on.job(deadline=0.6))


@each_way
@each_dialect
def test_the_marker_ends_the_wait(way, dialect):
    with stage(dialect, "stream", [CALL.keep_open(), ANSWER.keep_open()]) as on:
        assert run(way, on.job()) == FINAL
        on.endpoint.settle()

        assert on.ledger.of(StreamReleased, by="limit") == ()


@pytest.mark.parametrize("what", ["keep-alive", "text"])
@each_dialect
@pytest.mark.requirement("A24")
def test_a_stream_without_end_is_not_read_to_its_end(dialect, what):
    flood = Reply().text("and so on " * 500, "end").flood(what, 8 * MIB)
    with stage(dialect, "stream", [flood]) as on, pytest.raises(errors.ReplyTooLarge) as caught:
        run_async(SmallAgent(on.job()).run)

    assert str(caught.value) == "the response is larger than limit=1048576 bytes"
    assert len(caught.value.received) == 64 * 1024


@pytest.mark.parametrize(
    ("dialect", "mode"),
    [
        ("openai-chat", "stream"),
        ("openai-chat", "block"),
        ("anthropic", "stream"),
    ],
)
@pytest.mark.parametrize(
    ("tool", "raw"),
    [(PURGE, "{"), (SHELL, "rm -rf /"), (RECORD, '{"x": "1"} and so on')],
    ids=["brace", "raw", "garbage"],
)
@pytest.mark.requirement("A25")
def test_a_call_without_json_is_told_to_the_model(dialect, mode, tool, raw):
    _told_and_not_run(dialect, mode, tool, raw, "not JSON")


@each_dialect
@each_mode
@pytest.mark.parametrize(
    ("tool", "raw", "why"),
    [
        (PURGE, "null", "not a JSON object"),
        (RECORD, '{"x": "1", "x": "2"}', "a key stands twice"),
        (RECORD, '{"x": NaN}', "NaN is not JSON"),
        (RECORD, '{"y": "1"}', "'x' is a required property"),
        (RECORD, '{"x": 1}', "is not of type"),
        (RECORD, '{"x": "1", "z": "2"}', "'z' was unexpected"),
    ],
    ids=["null", "twice", "nan", "missing", "type", "extra"],
)
@pytest.mark.requirement("A25", "A41")
def test_a_call_against_the_schema_is_told_to_the_model(dialect, mode, tool, raw, why):
    _told_and_not_run(dialect, mode, tool, raw, why)


def _told_and_not_run(dialect, mode, tool, raw, why):
    with stage(dialect, mode, [Reply().call(tool.name, raw=raw, problem="broken"), ANSWER]) as on:
        assert run("asyncio", on.job(tool)) == FINAL

        assert on.ran == []
        assert why in list(on.endpoint.requests)[1].body
        assert on.ledger.of(TranscriptRejected) == ()


@each_dialect
def test_an_unknown_tool_is_told_to_the_model(dialect):
    with stage(dialect, "stream", [Reply().call("records", x="1"), ANSWER]) as on:
        assert run("trio", on.job()) == FINAL

        assert on.ran == []
        assert "no such tool: records; tools: record" in list(on.endpoint.requests)[1].body


@each_way
@each_dialect
def test_calls_of_one_turn_are_kept_apart_and_each_gets_its_result(way, dialect):
    first = ('{"x": ', '"first"', ', "y": "one"}')
    second = ('{"x": ', '"second"', ', "y": "two"}')
    both = Reply().call("record", raw=first).call("shell", raw='{"command":').call("record", raw=second)
    with stage(dialect, "stream", [both.interleave(), ANSWER]) as on:
        assert run(way, on.job(RECORD, SHELL)) == FINAL

        assert on.ran == [{"x": "first", "y": "one"}, {"x": "second", "y": "two"}]
        assert on.ledger.of(TranscriptRejected) == ()


@each_way
def test_what_a_tool_raises_is_told_to_the_model(way):
    failing = ToolSpec(
        name="record",
        parameters=RECORD.parameters,
        behaviour=Behaviour(does="raise", error="the disk is full"),
    )
    with stage("anthropic", "block", [CALL, ANSWER]) as on:
        assert run(way, on.job(failing)) == FINAL

        told = json.loads(list(on.endpoint.requests)[1].body)["messages"][-1]["content"]
        assert [(block["is_error"], "the disk is full" in block["content"]) for block in told] == [
            (True, True)
        ]


def test_a_long_result_is_cut_visibly():
    long = ToolSpec(name="record", parameters=RECORD.parameters, behaviour=Behaviour(size=10_000))
    with stage("openai-chat", "stream", [CALL, ANSWER]) as on:
        assert run("asyncio", on.job(long, output_bytes=100)) == FINAL

        told = json.loads(list(on.endpoint.requests)[1].body)["messages"][-1]["content"]
        assert told.endswith("\n[cut: 100 of 10000 bytes]")
        assert len(told) < 200


@each_way
def test_rounds_are_bounded(way):
    with stage("openai-chat", "stream", [CALL.times(9)]) as on:
        with pytest.raises(errors.RoundsExhausted, match="rounds=3"):
            run(way, on.job(rounds=3))

        assert on.asked == 3


def test_none_of_too_many_calls_runs():
    three = Reply().call("record", x="1").call("record", x="2").call("record", x="3")
    with stage("openai-chat", "stream", [three]) as on:
        with pytest.raises(errors.TooManyCalls, match="calls=3 allowed=2"):
            run("asyncio", on.job(tool_calls=2))

        assert on.ran == []


def test_nobody_listens():
    with stage("openai-chat", "stream", []) as on:
        job = on.job()
    with pytest.raises(errors.Unreachable):
        run("asyncio", job)


def test_an_error_carries_what_had_come():
    cut = CALL.cut(inside="x")
    with stage("openai-chat", "stream", [cut]) as on, pytest.raises(errors.IncompleteReply) as caught:
        run("asyncio", on.job())

    assert caught.value.partial is not None
    assert caught.value.partial.text == "Let me record that."
    assert caught.value.partial.finish is None
    assert caught.value.received.startswith(b"data: {")


@pytest.mark.requirement("A23")
async def test_a_cancelled_task_ends_as_cancelled_and_asks_no_more():
    held = CALL.hold()
    with stage("openai-chat", "stream", [held]) as on:
        task = asyncio.create_task(Agent(on.job(idle_timeout=BOUND)).run())
        assert await asyncio.to_thread(on.endpoint.requests.wait, 1, BOUND)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert on.asked == 1


@pytest.mark.requirement("A23")
def test_a_cancelled_scope_ends_as_cancelled_on_trio():
    async def main(on):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Agent(on.job(idle_timeout=BOUND)).run)
            await trio.to_thread.run_sync(on.endpoint.requests.wait, 1, BOUND)
            nursery.cancel_scope.cancel()
        return nursery.cancel_scope.cancelled_caught

    with stage("openai-chat", "stream", [CALL.hold()]) as on:
        assert trio.run(main, on) is True
        assert on.asked == 1


async def test_a_tool_that_swallows_the_cancel_does_not_undo_it():
    started = asyncio.Event()

    async def stubborn(x):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "recorded all the same"

    with stage("openai-chat", "stream", [CALL, ANSWER.optional()]) as on:
        job = on.job(idle_timeout=BOUND)
        job.tools = [
            SimpleNamespace(name="record", description="", parameters=RECORD.parameters, arun=stubborn)
        ]
        task = asyncio.create_task(Agent(job).run())
        await asyncio.wait_for(started.wait(), BOUND)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert on.asked == 1


@pytest.mark.requirement("A43")
async def test_runs_at_once_share_nothing():
    with stage("anthropic", "stream", []) as on:
        jobs = [_lane(on, f"lane-{n}") for n in range(5)]
        on.endpoint.play(CALL.cut(), lane="lane-5")
        jobs.append(on.job(lane="lane-5"))

        *answers, failure = await asyncio.gather(*(Agent(job).run() for job in jobs), return_exceptions=True)

        assert answers == [f"The answer of lane-{n}" for n in range(5)]
        assert isinstance(failure, errors.IncompleteReply)
        assert [tool.calls[0].arguments["x"] for tool in on.tools[:5]] == [f"of lane-{n}" for n in range(5)]


def test_threads_at_once_share_nothing():
    with stage("openai-chat", "block", []) as on:
        answers = {}
        jobs = {f"lane-{n}": _lane(on, f"lane-{n}") for n in range(5)}

        def work(lane):
            answers[lane] = ThreadAgent(jobs[lane]).run()

        threads = [threading.Thread(target=work, args=(lane,)) for lane in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)

        assert answers == {lane: f"The answer of {lane}" for lane in jobs}


def _lane(on, lane):
    on.endpoint.play(Reply().call("record", x=f"of {lane}"), Reply().text(f"The answer of {lane}"), lane=lane)
    return on.job(lane=lane)
