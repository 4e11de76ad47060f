"""Timers in slots, and awaitables that are started without a task."""

from __future__ import annotations

import asyncio

import pytest

from headwater.service.http.started import started
from headwater.service.operations.timer_wheel import SLOT_SECONDS, TimerWheel


def test_timers_fire_in_order_of_their_slots_and_never_early() -> None:
    async def run() -> None:
        loop, fired = asyncio.get_running_loop(), []
        wheel, done = TimerWheel(loop), asyncio.Event()
        began = loop.time()
        for slots in (4, 1, 2):
            wheel.after(slots * SLOT_SECONDS, lambda slots=slots: fired.append((slots, loop.time())))  # type: ignore[misc]
        wheel.after(2 * SLOT_SECONDS, lambda: None).cancel()
        wheel.after(6 * SLOT_SECONDS, done.set)
        await done.wait()
        assert [slots for slots, _ in fired] == [1, 2, 4]
        assert all(at - began >= slots * SLOT_SECONDS - 1e-6 for slots, at in fired)
        assert not wheel._slots and not wheel._order and wheel._handle is None, "nothing is left behind"

    asyncio.run(run())


def test_a_timer_that_fires_may_set_and_cancel_others() -> None:
    async def run() -> None:
        wheel, fired, done = TimerWheel(asyncio.get_running_loop()), [], asyncio.Event()
        other = wheel.after(3 * SLOT_SECONDS, lambda: fired.append("cancelled"))

        def first() -> None:
            other.cancel()
            wheel.after(0.0, lambda: fired.append("set by the first"))
            wheel.after(5 * SLOT_SECONDS, done.set)

        wheel.after(SLOT_SECONDS, first)
        await done.wait()
        other.cancel()
        assert fired == ["set by the first"]

    asyncio.run(run())


def test_waiting_ends_with_the_future_or_with_the_time() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        wheel, future = TimerWheel(loop), loop.create_future()
        assert not await wheel.wait(future, SLOT_SECONDS)
        loop.call_later(SLOT_SECONDS, future.set_result, None)
        assert await wheel.wait(future, 1_000)
        assert await wheel.wait(future, 0.0)

    asyncio.run(run())


def test_work_that_does_not_wait_runs_at_once_and_other_work_continues_in_a_task() -> None:
    async def run() -> None:
        steps, opened = [], asyncio.Event()

        async def work(waits: bool) -> None:
            steps.append("begun")
            if waits:
                await opened.wait()
                await asyncio.sleep(0)
            steps.append("done")

        assert started(work(False)) is None and steps == ["begun", "done"]
        rest = started(work(True))
        assert rest is not None and steps[2:] == ["begun"]
        task = asyncio.ensure_future(rest)
        await asyncio.sleep(0)
        opened.set()
        await task
        assert steps[2:] == ["begun", "done"]

    asyncio.run(run())


def test_errors_are_raised_where_the_work_is_started_or_awaited() -> None:
    async def run() -> None:
        async def fail(waits: bool) -> None:
            if waits:
                await asyncio.sleep(0)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            started(fail(False))
        rest = started(fail(True))
        assert rest is not None
        with pytest.raises(ValueError, match="no"):
            await rest

    asyncio.run(run())
