"""Runs requests for all pointers of a realm in lanes side by side, from threads or asyncio."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.commit.landed_elsewhere import HandedOver
from headwater.persistence.commit.lane import Lane, LaneContext, LaneStats
from headwater.persistence.commit.replies import FutureReply, LoopReply, Mailboxes, Reply, ThreadReply
from headwater.persistence.limits import check_name
from headwater.schemas.errors import StoreUnavailable

LANES_AT_ONCE = 16
IDLE_SECONDS = 0.1
"""How long a thread waits for the next lane before it goes back to the pool. Through the pool each lane costs a future more."""
LANES_KEPT_MAX = 1_000
"""Above this, idle lanes are dropped, least recently used first; a lane that is created again starts cold."""

HandOver: TypeAlias = Callable[[str, CommitRequest, Reply[CommitOutcome]], bool]
"""Returns whether another process took over the request for a pointer. It is then answered even if that process dies."""


class Committer:
    """The generic committer: realms, principals, grants, tasks and catalogs all go through here."""

    def __init__(self, context: LaneContext) -> None:
        self.stats = LaneStats()
        self.hand_over: HandOver | None = None
        self._context = context
        self._lanes: OrderedDict[str, Lane] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self._busy_lanes = 0
        self._threads = ThreadPoolExecutor(LANES_AT_ONCE, thread_name_prefix="lane")
        self._idle: list[_IdleThread] = []
        self._mailboxes = Mailboxes()

    def submit(self, pointer: str, request: CommitRequest) -> Future[CommitOutcome]:
        """A future of the outcome. Requests for one pointer are applied in the order in which they are submitted."""
        reply: FutureReply[CommitOutcome] = FutureReply()
        self._submit(pointer, request, reply)
        return reply.future

    def commit(self, pointer: str, request: CommitRequest) -> CommitOutcome:
        reply: ThreadReply[CommitOutcome] = ThreadReply()
        self._submit(pointer, request, reply)
        return reply.wait()

    async def commit_async(self, pointer: str, request: CommitRequest) -> CommitOutcome:
        """Cancelling it while it waits takes the request back; once the lane has taken it, it goes through."""
        reply: LoopReply[CommitOutcome] = LoopReply(self._mailboxes.of_running_loop())
        self._submit(pointer, request, reply)
        return await reply.future

    def _submit(self, pointer: str, request: CommitRequest, reply: Reply[CommitOutcome]) -> None:
        if self.hand_over is None or self._closed or not self.hand_over(pointer, request, reply):
            self.submit_here(pointer, request, reply)

    def submit_here(
        self, pointer: str, request: CommitRequest, reply: Reply[CommitOutcome], handed_over: HandedOver | None = None
    ) -> None:
        """Submit to the lane of this process. `handed_over` is set if another process may land, or has landed, the request."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store has been closed; nothing was changed.")
            lane = self._lane(pointer)
            if lane.submit(request, reply, handed_over):
                self._busy_lanes += 1
                if self._idle:
                    self._idle.pop().wake(lane)
                else:
                    self._threads.submit(self._run_lanes, lane)

    @property
    def is_busy(self) -> bool:
        """Whether anything is being committed here now, for background work that can wait."""
        return self._busy_lanes > 0

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().wake(None)
        self._threads.shutdown(wait=True)

    def _run_lanes(self, lane: Lane | None) -> None:
        """Run the lane until it rests, then the next one. A lane that is busy for long queues behind those without a thread."""
        thread = _IdleThread()
        while lane is not None:
            while lane.run():
                with self._lock:
                    if self._busy_lanes > LANES_AT_ONCE and not self._closed:  # a pool that shuts down takes nothing new
                        self._threads.submit(self._run_lanes, lane)
                        return
            lane = self._next_lane(thread)

    def _next_lane(self, thread: _IdleThread) -> Lane | None:
        """None if no lane comes within IDLE_SECONDS, or if lanes wait in the pool."""
        with self._lock:
            self._busy_lanes -= 1
            if self._closed or self._busy_lanes >= LANES_AT_ONCE:
                return None
            self._idle.append(thread)
        if not thread.wait(IDLE_SECONDS):
            with self._lock:
                if thread in self._idle:
                    self._idle.remove(thread)
                    return None
            thread.wait()  # it was given a lane just now
        return thread.lane

    def _lane(self, pointer: str) -> Lane:
        lane = self._lanes.get(pointer)
        if lane is None:
            lane = self._lanes[pointer] = Lane(check_name(pointer, "pointer"), self._context, self.stats)
            self._forget_some()
        self._lanes.move_to_end(pointer)
        return lane

    def _forget_some(self) -> None:
        """At most two at a time, to bound the delay; busy lanes are kept however many there are."""
        for pointer in list(itertools.islice(self._lanes, 2)) if len(self._lanes) > LANES_KEPT_MAX else ():
            if self._lanes[pointer].is_idle:
                del self._lanes[pointer]
            else:
                self._lanes.move_to_end(pointer)


class _IdleThread:
    """A thread of the pool that waits for a lane."""

    __slots__ = ("_woken", "lane")

    def __init__(self) -> None:
        self.lane: Lane | None = None
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self, lane: Lane | None) -> None:
        self.lane = lane
        self._woken.release()

    def wait(self, seconds: float = -1) -> bool:
        return self._woken.acquire(timeout=seconds)
