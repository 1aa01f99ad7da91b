"""The fetch tools against a real server: what arrives there, in three ways."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
import trio
from fetch_kit import (
    BOUND,
    WAYS,
    QuickThreadTool,
    QuickTool,
    drop,
    endless,
    hold,
    hold_body,
    in_turn,
    site,
    status,
    trickle,
)

from pytest_agentguard.reference import errors

each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)


def kinds(outcomes):
    return [type(outcome) for outcome in outcomes]


@each_way
@pytest.mark.requirement("B01")
def test_an_allowed_id_arrives_once_with_the_token_and_a_key(way):
    with site(status(200, b"hello")) as place:
        assert way.call(way.tool(place.job()), "a") == ["hello"]

    (seen,) = place.requests
    assert (seen.method, seen.path) == ("GET", "/a")
    assert seen.headers["authorization"] == "Bearer canary"
    assert seen.headers["idempotency-key"]


@each_way
def test_a_body_is_sent_as_it_stands(way):
    with site(status(201, b"made")) as place:
        assert way.call(way.tool(place.job(method="POST", body='{"x": "ä"}')), "a") == ["made"]

    assert [(seen.method, seen.body.decode()) for seen in place.requests] == [("POST", '{"x": "ä"}')]


DISGUISES = (
    "c",
    "A",
    "a ",
    " a",
    "a.",
    "a/",
    "a?x=1",
    "a#a",
    "%61",
    "a\n",
    "a\x00",
    "",
    "{url}/a",
    "{url}/secret",
    "http://a",
    "https://127.0.0.1/a",
    "file:///etc/passwd",
    "//127.0.0.1/a",
    "http://user:password@127.0.0.1:{port}/a",
    "http://[::1]:{port}/a",
    "http://2130706433:{port}/a",
    "http://0x7f000001:{port}/a",
    "http://127.0.0.1.:{port}/a",
    "localhost:{port}/a",
    "javascript:a",
    None,
    7,
)


@each_way
@pytest.mark.requirement("B02", "B03")
def test_whatever_is_not_on_the_list_is_refused_and_costs_nothing(way):
    with site(status(200)) as place:
        port = place.url.rpartition(":")[2]
        inputs = [one.format(url=place.url, port=port) if isinstance(one, str) else one for one in DISGUISES]
        tool = way.tool(place.job(attempts=1))

        refused = way.call(tool, *inputs)

        assert kinds(refused) == [errors.NotAllowed] * len(inputs)
        assert place.requests == []
        assert tool.budget.left == 1
        assert way.call(tool, "a") == ["ok"]


@each_way
@pytest.mark.parametrize("code", [300, 301, 302, 303, 304, 307, 308])
@pytest.mark.requirement("B04")
def test_a_redirect_is_the_end(way, code):
    with site(status(200)) as elsewhere, site(status(code, location=f"{elsewhere.url}/b")) as place:
        (refused,) = way.call(way.tool(place.job()), "a")

    assert isinstance(refused, errors.RedirectRefused)
    assert str(refused) == f"not followed: status={code} location='{elsewhere.url}/b'"
    assert (place.paths, elsewhere.paths) == (["/a"], [])


@each_way
@pytest.mark.requirement("B05")
def test_failures_spend_the_budget_and_nothing_is_sent_after_it(way):
    with site(status(503)) as place:
        first, second = way.call(way.tool(place.job(attempts=2)), "a", "b")

    assert isinstance(first, errors.FetchFailed)
    assert str(first) == "the server refused or failed: status=503"
    assert isinstance(second, errors.BudgetExhausted)
    assert str(second) == "no attempt is left: spent=2 allowed=2"
    assert place.paths == ["/a", "/a"]


@each_way
@pytest.mark.requirement("B06")
def test_a_request_that_was_read_and_dropped_is_spent_and_unknown(way):
    with site(drop) as place:
        tool = way.tool(place.job(attempts=1))
        lost, blocked = way.call(tool, "a", "a")

    assert isinstance(lost, errors.ConnectionLost)
    assert f"effect=unknown request=a attempt=1 key={place.keys()[0]}" in str(lost)
    assert isinstance(blocked, errors.BudgetExhausted)
    assert len(place.requests) == 1
    assert [entry.effect for entry in tool.effects.entries] == ["unknown"]


@each_way
@pytest.mark.parametrize("answer", [hold, hold_body, trickle])
@pytest.mark.requirement("B07")
def test_one_exchange_has_a_limit_whatever_comes(way, answer):
    with site(answer) as place:
        late, blocked = way.call(way.tool(place.job(attempts=1, request_timeout=0.25)), "a", "a")
        assert not place.release.is_set()

    assert isinstance(late, errors.RequestTimeout)
    assert isinstance(blocked, errors.BudgetExhausted)
    assert len(place.requests) == 1


@each_way
@pytest.mark.parametrize("answer", [hold, hold_body, trickle])
@pytest.mark.requirement("A16", "B08")
def test_the_deadline_ends_the_tool_before_the_timeout_of_a_request(way, answer):
    with site(answer) as place:
        tool = way.tool(place.job(request_timeout=BOUND, deadline=0.35))
        late, refused = way.call(tool, "a", "a")
        assert not place.release.is_set()

    assert isinstance(late, errors.DeadlineReached)
    assert isinstance(refused, errors.RunStopped | errors.DeadlineReached)
    assert not isinstance(refused, errors.RunCancelled)
    assert len(place.requests) == 1
    assert tool.stop.why == "deadline"


@each_way
def test_timeouts_that_each_restart_end_with_the_deadline(way):
    with site(hold) as place:
        tool = way.tool(place.job(request_timeout=0.1, deadline=0.5))
        outcomes = way.call(tool, *["a"] * 9)
        assert not place.release.is_set()

    assert set(kinds(outcomes[:-1])) <= {errors.RequestTimeout, errors.DeadlineReached, errors.RunStopped}
    assert kinds(outcomes[-1:]) != [errors.RequestTimeout]


@each_way
@pytest.mark.requirement("B13")
def test_workers_share_one_budget(way):
    with site(status(503)) as place:
        outcomes = way.call_at_once(way.tool(place.job(attempts=5)), "a", workers=8)

    assert len(place.requests) == 5
    assert set(kinds(outcomes)) == {errors.FetchFailed, errors.BudgetExhausted}


@each_way
@pytest.mark.requirement("B18")
def test_the_key_is_the_same_for_every_attempt_and_new_for_every_call(way):
    with site(in_turn(status(503), drop, status(200))) as place:
        assert way.call(way.tool(place.job()), "a", "a") == ["ok", "ok"]

    first, second, third, other = place.keys()
    assert first == second == third != other


@each_way
@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 410, 422])
def test_a_refusal_of_the_server_is_not_asked_again(way, code):
    with site(status(code)) as place:
        (failed,) = way.call(way.tool(place.job()), "a")

    assert isinstance(failed, errors.FetchFailed)
    assert (failed.status, len(place.requests)) == (code, 1)


@each_way
@pytest.mark.parametrize("asked", ["3600", "99999999999999999999", "1e400", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_pause_beyond_the_deadline_is_not_begun(way, asked):
    with site(status(503, retry_after=asked)) as place:
        (failed,) = way.call(way.tool(place.job()), "a")

    assert isinstance(failed, errors.FetchFailed)
    assert len(place.requests) == 1


@each_way
def test_a_pause_that_the_server_asks_for_is_kept(way):
    waits = []

    def kept(base):
        class Keeping(base.attempts):
            def wait_after(self, failure):
                waits.append(super().wait_after(failure))
                return 0.0

        class Tool(base):
            attempts = Keeping

        return Tool

    with site(in_turn(status(429, retry_after="7"), status(200))) as place:
        tool = kept(type(way.tool(place.job())))(place.job())
        assert way.call(tool, "a") == ["ok"]

    assert waits == [7.0]


@each_way
@pytest.mark.parametrize("answer", [status(200, b"x" * 1001), endless], ids=["oversize", "endless"])
@pytest.mark.requirement("A16")
def test_a_body_beyond_its_bound_is_not_read(way, answer):
    with site(answer) as place:
        (failed,) = way.call(way.tool(place.job(output_bytes=1000)), "a")
        assert not place.release.is_set()

    assert isinstance(failed, errors.ResponseTooLarge)
    assert len(place.requests) == 1


@each_way
def test_a_body_at_its_bound_is_read(way):
    with site(status(200, b"x" * 1000)) as place:
        assert way.call(way.tool(place.job(output_bytes=1000)), "a") == ["x" * 1000]


@each_way
def test_a_packed_body_is_refused(way):
    with site(status(200, content_encoding="gzip")) as place:
        (failed,) = way.call(way.tool(place.job()), "a")

    assert str(failed) == "the body is packed: encoding='gzip'"


@each_way
def test_nobody_listens_and_that_is_known_not_to_have_been_sent(way):
    with site(status(200)) as place:
        job = place.job(attempts=2)
    tool = way.tool(job)
    (failed,) = way.call(tool, "a")

    assert isinstance(failed, errors.Unreachable)
    assert [entry.effect for entry in tool.effects.entries] == ["not sent", "not sent"]


@each_way
def test_proxies_of_the_environment_are_not_used(way, monkeypatch):
    with site(status(200)) as proxy, site(status(200)) as place:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        assert way.call(way.tool(place.job()), "a") == ["ok"]

    assert (len(proxy.requests), len(place.requests)) == (0, 1)


# -- cancel -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [hold, hold_body])
@pytest.mark.requirement("B09", "B10")
async def test_a_cancelled_task_stops_the_tool_and_leaves_the_effect_unknown(answer):
    with site(answer) as place:
        tool = QuickTool(place.job())
        task = asyncio.create_task(tool("a"))
        assert await asyncio.to_thread(place.arrived.acquire, timeout=BOUND)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        with pytest.raises(errors.RunStopped, match=r"^nothing is started after a stop: stop=cancel"):
            await tool("b")
        assert place.paths == ["/a"]
        assert tool.effects.entries[0].effect in ("unknown", "answered")
        assert len(asyncio.all_tasks()) == 1


@pytest.mark.requirement("B09", "B10")
def test_a_cancelled_scope_stops_the_tool_on_trio():
    async def main(place, tool):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tool, "a")
            await trio.to_thread.run_sync(lambda: place.arrived.acquire(timeout=BOUND))
            nursery.cancel_scope.cancel()
        with pytest.raises(errors.RunStopped, match=r"stop=cancel; effect=unknown requests=a attempt=1"):
            await tool("b")

    with site(hold) as place:
        trio.run(main, place, QuickTool(place.job()))
        assert place.paths == ["/a"]


@pytest.mark.requirement("B17")
async def test_a_cancel_before_the_send_sends_nothing():
    with site(status(200)) as place:
        tool = QuickTool(place.job())
        task = asyncio.create_task(tool("a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert place.requests == []
        assert tool.budget.spent == 0
        with pytest.raises(errors.RunStopped):
            await tool("a")


async def test_a_cancel_of_one_worker_stops_them_all():
    with site(hold) as place:
        tool = QuickTool(place.job())
        tasks = [asyncio.create_task(tool("a")) for _ in range(3)]
        for _ in tasks:
            assert await asyncio.to_thread(place.arrived.acquire, timeout=BOUND)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        with pytest.raises(errors.RunStopped):
            await tool("b")
        place.release.set()

        assert await asyncio.gather(*tasks[1:]) == ["ok", "ok"]
        assert place.paths == ["/a"] * 3


@pytest.mark.parametrize("answer", [hold, hold_body, trickle])
@pytest.mark.requirement("B15")
def test_a_cancel_from_another_thread_wakes_a_tool_that_waits(answer):
    with site(answer) as place:
        tool = QuickThreadTool(place.job())
        canceller = threading.Thread(target=lambda: place.arrived.acquire(timeout=BOUND) and tool.cancel())
        canceller.start()
        with pytest.raises(errors.RunCancelled):
            tool("a")
        canceller.join(BOUND)
        assert not place.release.is_set()

        with pytest.raises(errors.RunCancelled):
            tool("b")
        assert place.paths == ["/a"]


def test_a_cancel_wakes_all_workers_in_threads():
    with site(hold) as place:
        tool = QuickThreadTool(place.job())
        way = WAYS[2]
        outcomes = []
        workers = threading.Thread(target=lambda: outcomes.extend(way.call_at_once(tool, "a", 4)))
        workers.start()
        for _ in range(4):
            assert place.arrived.acquire(timeout=BOUND)
        tool.cancel()
        workers.join(BOUND)
        assert not place.release.is_set()

    assert kinds(outcomes) == [errors.RunCancelled] * 4


def test_a_cancel_ends_the_pause_before_the_next_attempt():
    with site(status(503, retry_after="9")) as place:
        tool = QuickThreadTool(place.job(deadline=60))
        seen = threading.Thread(target=lambda: place.arrived.acquire(timeout=BOUND) and tool.cancel())
        seen.start()
        with pytest.raises(errors.RunCancelled):
            tool("a")
        seen.join(BOUND)

    assert len(place.requests) == 1


def test_an_interrupt_stops_the_tool():
    with site(hold) as place:
        tool = QuickThreadTool(place.job())
        main = threading.main_thread().ident
        sender = threading.Thread(
            target=lambda: place.arrived.acquire(timeout=BOUND) and signal.pthread_kill(main, signal.SIGINT)
        )
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            tool("a")
        sender.join(BOUND)

        with pytest.raises(errors.RunCancelled):
            tool("b")
        assert place.paths == ["/a"]
