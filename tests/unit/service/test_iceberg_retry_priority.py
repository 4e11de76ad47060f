"""Writers of one table: each gets through after one refusal, nobody waits for one who does not come back, and lines end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headwater.schemas.errors import LaneFull, RequirementFailed
from headwater.service.iceberg import retry_priority as module
from headwater.service.iceberg.retry_priority import WriterQueue

TABLE = ("db", "t")


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


class Table:
    """One ref; a writer that does not name its newest snapshot is refused."""

    def __init__(self) -> None:
        self.snapshot = 0
        self.turns = WriterQueue()

    async def append(self, writer: int, parent: int) -> int:
        async with self.turns.of(TABLE, writer):
            await asyncio.sleep(0)
            if parent != self.snapshot:
                raise RequirementFailed("too late")
            self.snapshot += 1
            return self.snapshot


def test_writers_that_retry_at_once_share_fairly() -> None:
    async def race() -> None:
        table, landed, refused = Table(), [0] * 8, [0] * 8

        async def write(writer: int) -> None:
            known = 0
            while sum(landed) < 400:
                try:
                    known = await table.append(writer, known)
                    landed[writer] += 1
                except RequirementFailed:
                    refused[writer] += 1
                    known = table.snapshot
                    await asyncio.sleep(0)  # loading takes a while

        await asyncio.gather(*(write(writer) for writer in range(8)))
        assert max(landed) - min(landed) <= 2, landed
        assert sum(refused) <= sum(landed) + 8, "more than one refusal for each success"

    run(race())


def test_turns_that_are_not_used_become_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_SECONDS", 2.0)

    async def leave() -> None:
        table = Table()
        for _ in range(10):
            with pytest.raises(RequirementFailed):
                await table.append(1, -1)
            await table.append(2, table.snapshot)
        assert table.turns._lines[TABLE].turn_seconds == module.TURN_SECONDS_MIN
        while table.turns._lines:  # not remembered forever
            await asyncio.sleep(0.05)

    run(leave())


def test_an_empty_queue_is_forgotten() -> None:
    async def come_and_go() -> None:
        table = Table()
        await table.append(1, 0)
        assert table.turns._lines == {}
        with pytest.raises(RequirementFailed):
            await table.append(1, -1)
        await table.append(1, 1)
        assert table.turns._lines == {}

    run(come_and_go())


def test_a_writer_that_disconnects_while_it_waits_delays_no_other() -> None:
    async def hang_up() -> None:
        table = Table()
        inside, leave = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            async with table.turns.of(TABLE, 1):
                inside.set()
                await leave.wait()

        first = asyncio.ensure_future(slow())
        await inside.wait()
        gone = asyncio.ensure_future(table.append(2, 0))
        waiting = asyncio.ensure_future(table.append(3, 0))
        await asyncio.sleep(0)
        gone.cancel()
        leave.set()
        assert await waiting == 1
        await first
        assert gone.cancelled() or gone.cancelling()

    run(hang_up())


def test_a_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 1)

    async def crowd() -> None:
        table = Table()
        results = await asyncio.gather(*(table.append(writer, 0) for writer in range(3)), return_exceptions=True)
        assert [type(one) for one in results if isinstance(one, LaneFull)] == [LaneFull]

    run(crowd())
