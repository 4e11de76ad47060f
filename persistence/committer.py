"""Requests for any pointer of a realm enter, from threads or asyncio; lanes run them side by side, and answers leave."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from headwater.persistence.lane import Answer, CommitRequest, Lane, LaneContext, LaneStats
from headwater.persistence.limits import check_name

LANES_AT_ONCE = 16


class Committer:
    """The generic committer: realms, principals, grants, tasks and catalogs all go through here."""

    def __init__(self, context: LaneContext) -> None:
        self.stats = LaneStats()
        self._context = context
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(LANES_AT_ONCE, thread_name_prefix="lane")

    def submit(self, pointer: str, request: CommitRequest) -> Future[Answer]:
        """The answer to come. Requests for one pointer are applied in the order in which they are submitted."""
        lane = self._lane(pointer)
        future, must_start = lane.submit(request)
        if must_start:
            self._threads.submit(lane.run)
        return future

    def commit(self, pointer: str, request: CommitRequest) -> Answer:
        return self.submit(pointer, request).result()

    async def commit_async(self, pointer: str, request: CommitRequest) -> Answer:
        return await asyncio.wrap_future(self.submit(pointer, request))

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        self._threads.shutdown(wait=True)

    def _lane(self, pointer: str) -> Lane:
        with self._lock:
            lane = self._lanes.get(pointer)
            if lane is None:
                lane = self._lanes[pointer] = Lane(check_name(pointer, "pointer"), self._context, self.stats)
            return lane
