"""Coalesces concurrent reads of keys on the event loop; each sees the state after it was asked.

⚠ Read your writes: no answer comes from a read that began before its question. What is asked while a
read is under way goes together into the next one, so many readers cost few reads and few threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headwater.producer.content.snapshots import ContentEntry
from headwater.schemas.change import KeyPath
from headwater.service.iceberg.operations.lake_branch import LakeBranch

_Asked = tuple[KeyPath, "asyncio.Future[ContentEntry | None]"]


class CoalescedReads:
    """One per event loop."""

    def __init__(self) -> None:
        self._waiting: dict[LakeBranch, list[_Asked]] = {}
        self._readers: dict[LakeBranch, asyncio.Task[None]] = {}

    async def get(self, branch: LakeBranch, key: KeyPath) -> ContentEntry | None:
        answer: asyncio.Future[ContentEntry | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(branch, []).append((key, answer))
        if branch not in self._readers:
            self._readers[branch] = asyncio.ensure_future(self._read_on(branch))
        return await answer

    async def _read_on(self, branch: LakeBranch) -> None:
        try:
            while asked := self._waiting.pop(branch, None):
                try:
                    found = await asyncio.to_thread(branch.current, {key for key, _ in asked})
                except Exception as error:
                    _settle_all(asked, error)
                else:
                    for key, answer in asked:
                        if not answer.done():  # the caller may have hung up
                            answer.set_result(found[key])
        finally:
            del self._readers[branch]


def _settle_all(asked: Iterable[_Asked], error: Exception) -> None:
    for _, answer in asked:
        if not answer.done():
            answer.set_exception(error)
