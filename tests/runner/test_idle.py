"""What is delivered to a loop comes once nothing on it is about to run, or as soon as possible."""

from __future__ import annotations

import asyncio

import trio

from pytest_agentguard._runner.idle import in_asyncio, in_trio

STEPS = 20


def test_on_asyncio_it_comes_after_every_step_that_is_scheduled() -> None:
    seen: list[str] = []

    async def main() -> None:
        once_it_waits, _ = in_asyncio()
        come = asyncio.Event()

        async def steps() -> None:
            for _ in range(STEPS):
                seen.append("step")
                await asyncio.sleep(0)
            await come.wait()

        def now() -> None:
            seen.append("now")
            come.set()

        task = asyncio.create_task(steps())
        once_it_waits(now)
        await asyncio.wait_for(task, 20)

    asyncio.run(main())
    assert seen == [*["step"] * STEPS, "now"]


def test_on_trio_it_comes_after_every_step_that_is_scheduled() -> None:
    seen: list[str] = []

    async def main() -> None:
        once_it_waits, _ = in_trio()
        come = trio.Event()

        def now() -> None:
            seen.append("now")
            come.set()

        once_it_waits(now)
        for _ in range(STEPS):
            seen.append("step")
            await trio.lowlevel.checkpoint()
        with trio.fail_after(20):
            await come.wait()

    trio.run(main)
    assert seen == [*["step"] * STEPS, "now"]


def test_at_once_is_between_two_steps() -> None:
    seen: list[str] = []

    async def steps() -> None:
        for _ in range(STEPS):
            seen.append("step")
            await asyncio.sleep(0)

    async def on_asyncio() -> None:
        _, at_once = in_asyncio()
        at_once(lambda: seen.append("now"))
        await steps()

    asyncio.run(on_asyncio())
    assert 0 < seen.index("now") < STEPS


def test_a_loop_that_never_waits_is_not_waited_for_without_end() -> None:
    async def on_asyncio() -> None:
        come: list[int] = []
        in_asyncio()[0](lambda: come.append(1))
        while not come:
            await asyncio.sleep(0)

    async def on_trio() -> None:
        come: list[int] = []
        in_trio()[0](lambda: come.append(1))
        with trio.fail_after(20):
            while not come:
                await trio.lowlevel.checkpoint()

    asyncio.run(asyncio.wait_for(on_asyncio(), 20))
    trio.run(on_trio)
