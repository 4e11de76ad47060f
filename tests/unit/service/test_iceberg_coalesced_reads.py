"""Shared reads of a branch: none that began before a question answers it, many questions cost few reads, faults reach all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from headwater.schemas.errors import StoreUnavailable
from headwater.service.iceberg.operations.coalesced_reads import CoalescedReads

KEY = ("db", "t")


class Branch:
    """Answers each read with its number, when it is released."""

    def __init__(self) -> None:
        self.reads = 0
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.fault: Exception | None = None

    def current(self, keys: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
        self.reads += 1
        mine, fault = self.reads, self.fault
        self.begun.release()
        self.go.acquire()
        if fault is not None:
            raise fault
        return dict.fromkeys(keys, mine)


async def until_begun(branch: Branch) -> None:
    await asyncio.to_thread(branch.begun.acquire)


def ask(reads: CoalescedReads, branch: Branch, key: tuple[str, ...] = KEY) -> asyncio.Future[Any]:
    return asyncio.ensure_future(reads.get(branch, key))  # type: ignore[arg-type]


def test_a_read_that_began_before_a_question_does_not_answer_it() -> None:
    async def run() -> None:
        reads, branch = CoalescedReads(), Branch()
        first = ask(reads, branch)
        await until_begun(branch)
        late = [ask(reads, branch, ("db", str(number))) for number in range(20)]
        await asyncio.sleep(0)
        branch.go.release()
        assert await first == 1
        await until_begun(branch)
        assert not any(one.done() for one in late)
        branch.go.release()
        assert await asyncio.gather(*late) == [2] * 20
        assert branch.reads == 2, "they did not share a read"

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_fault_reaches_every_waiting_caller_and_the_next_read_is_a_new_one() -> None:
    async def run() -> None:
        reads, branch = CoalescedReads(), Branch()
        branch.fault = StoreUnavailable("as ordered")
        asked = [ask(reads, branch) for _ in range(3)]
        await until_begun(branch)
        branch.fault = None
        branch.go.release()
        for one in asked:
            with pytest.raises(StoreUnavailable):
                await one
        branch.go.release()
        assert await ask(reads, branch) == 2

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_caller_that_disconnects_affects_no_other() -> None:
    async def run() -> None:
        reads, branch = CoalescedReads(), Branch()
        gone, stays = ask(reads, branch), ask(reads, branch)
        await until_begun(branch)
        gone.cancel()
        branch.go.release()
        assert await stays == 1
        assert gone.cancelled()
        branch.go.release()
        assert await ask(reads, branch) == 2

    asyncio.run(asyncio.wait_for(run(), 30))
