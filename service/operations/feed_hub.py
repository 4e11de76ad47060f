"""One hub for all readers who follow the same pointers with the same filter: a commit wakes it once, it builds each page once.

A reader joins when it has caught up, and stands in the hub with its positions. When a pointer moves, the hub goes through its
readers and hands each the page that begins exactly where that reader stands: one page, read and encoded once, for all who stand
there and may see the same. Whatever a hub cannot settle at once from memory — a right that must be looked up, a frame that the
connection does not take, a history that was cut or replaced — releases the reader: it continues by itself, gets the error or
reads the store, and joins again.

⚠ A reader gets a page only if the page begins at its positions, entry ids included, and its positions move only when it has
taken the page. So nothing is skipped or repeated, however readers join, lag and leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

from headwater.persistence.reading.pointer_log import stands_at
from headwater.schemas.cursor import Position
from headwater.schemas.errors import HeadwaterError, RealmNotActive
from headwater.schemas.filters import Filter
from headwater.service.operations.fan_out import FanOut
from headwater.service.operations.feed_pages import View
from headwater.service.operations.followers import Follower, FoundViews, SharedPage
from headwater.service.operations.realm_feeds import RealmFeed
from headwater.service.operations.stopping import Stopping
from headwater.service.operations.timer_wheel import Timer, TimerWheel

FRAME_CHANGES_MAX = 100
FRAME_BYTES_MAX = 1024 * 1024
"""Smaller than a page: some frames lie in buffers below us before a slow reader is noticed."""
SHARED_BYTES_MAX = 16 * 1024 * 1024
"""Size of the pages that one hub keeps between two moves; the oldest is rebuilt if a reader still needs it."""
SLICE_READERS_MIN = 50
"""Served in a slice however long it takes: on a machine that is busy with other work a slice must not shrink to nothing."""
LOOK_AGAIN_SECONDS = 1.0
"""A watch that lost the store wakes no reader: heads are then read again at this interval."""

_log = logging.getLogger(__name__)


class HubKey(NamedTuple):
    feed: RealmFeed
    pointers: tuple[str, ...]
    filter: Filter


class Hub:
    def __init__(self, hubs: dict[HubKey, Hub], key: HubKey, fan_out: FanOut) -> None:
        self.is_scheduled = False
        self._hubs = hubs
        """Where it is found while it has followers."""
        self._key = key
        self._filter = key.filter
        self._fan_out = fan_out
        self._loop = fan_out.loop
        self._pages = key.feed.pages
        self._watch = key.feed.watch
        self._followers: dict[Follower, None] = {}
        self._queue: deque[Follower] = deque()
        self._shared: dict[Hashable, SharedPage] = {}
        self._shared_bytes = 0
        self._last: SharedPage | None = None
        self._reading: dict[Hashable, list[Follower]] = {}
        """Readers that wait for a page that is being read."""
        self._generation = 0
        """Generation of the heads: a page of an older one may end before the newest entry."""
        self._has_moved = False
        self._is_wake_sent = False
        self._looking: Timer | None = None

    @property
    def followers(self) -> int:
        return len(self._followers)

    @property
    def is_committing(self) -> bool:
        return self._key.feed.kernel.committer.is_busy

    # ── readers ─────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, follower: Follower) -> None:
        """From now on the hub hands it every page. What has come since it looked is handed to it at once."""
        if self._watch.is_closed:
            raise RealmNotActive("the realm is no longer served here.", field="realm", remedy="Look at its status.")
        if not self._followers:
            self._open()
        self._followers[follower] = None
        if self._heads_are_known() and self._has_news(follower):
            self.serve(follower)

    def leave(self, follower: Follower) -> bool:
        """Whether it was there."""
        if follower not in self._followers:
            return False
        del self._followers[follower]
        if not self._followers:
            self._close()
        return True

    def release(self, follower: Follower) -> None:
        if self.leave(follower):
            follower.released()

    def serve(self, follower: Follower) -> None:
        """Has it looked at soon, though no pointer has moved."""
        self._queue.append(follower)
        self._fan_out.schedule(self)

    def release_all(self) -> None:
        for follower in tuple(self._followers):
            self.release(follower)

    # ── moves ───────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> None:
        for pointer in self._key.pointers:
            self._watch.add_waiter(pointer, self._wake)
        self._looking = self._fan_out.wheel.after(LOOK_AGAIN_SECONDS, self._look_again)
        self._hubs[self._key] = self

    def _close(self) -> None:
        del self._hubs[self._key]
        if self._looking is not None:
            self._looking.cancel()
        for pointer in self._key.pointers:
            self._watch.remove_waiter(pointer, self._wake)
        self._queue.clear()
        self._forget_pages()

    def _wake(self) -> None:
        """From any thread: one message to the event loop, however many moves came since it looked."""
        if not self._is_wake_sent and not self._loop.is_closed():
            self._is_wake_sent = True
            self._loop.call_soon_threadsafe(self._moved)

    def _moved(self) -> None:
        self._is_wake_sent = False  # ⚠ before any head is read: a later move sends the next wake
        self._fan_out.wakes += 1
        self._generation += 1
        self._has_moved = True
        self._fan_out.schedule(self)

    def _look_again(self) -> None:
        if self._watch.is_closed:
            self.release_all()
            return
        if not self._heads_are_known():
            self._has_moved = True
            self._fan_out.schedule(self)
        self._looking = self._fan_out.wheel.after(LOOK_AGAIN_SECONDS, self._look_again)

    def _heads_are_known(self) -> bool:
        return all(self._watch.known(pointer) or self._watch.known_end(pointer) for pointer in self._key.pointers)

    def _has_news(self, follower: Follower) -> bool:
        """Whether its positions are not those of the heads, or only the store knows."""
        for pointer, position in follower.positions.items():
            head = self._watch.known(pointer) or self._watch.known_end(pointer)
            if head is None or not stands_at(position, head):
                return True
        return False

    # ── serving ─────────────────────────────────────────────────────────────────────────────────────────────

    def serve_slice(self, seconds: float) -> bool:
        """Serves readers for so long; whether there are more. Never waits."""
        if self._has_moved:
            self._has_moved = False
            self._forget_pages()
            self._queue = deque(self._followers)
        found: FoundViews = {}
        now = self._loop.time()
        deadline = now + seconds
        served = 0
        while self._queue and (served < SLICE_READERS_MIN or now < deadline):
            served += 1
            follower = self._queue.popleft()
            if follower in self._followers:
                try:
                    self._serve(follower, now, found)
                except Exception:
                    _log.exception("a reader could not be served by its hub")
                    self.release(follower)  # it continues, or ends, by itself
            now = self._loop.time()
        return bool(self._queue) or self._has_moved

    def _serve(self, follower: Follower, now: float, found: FoundViews) -> None:
        known = follower.known_view(found)
        if known is None:
            if self._has_news(follower) or follower.is_due(now):
                self.release(follower)
            return
        shared = self._page_for(follower, known[0])
        if shared is None or not (shared.is_news or follower.is_due(now)):
            return
        self._fan_out.handed_out += 1
        if not follower.take(shared, now):
            self.release(follower)
        elif not shared.reaches_head or shared.generation != self._generation:
            self._queue.append(follower)

    def _page_for(self, follower: Follower, view: View | None) -> SharedPage | None:
        """The page that begins where the follower stands, from memory; None while it is read, when it will be served again."""
        seen = None if view is None else view.key
        last = self._last
        if last is not None and last.starts is follower.positions and last.view == seen:
            return last
        key = (tuple(follower.positions.values()), seen)
        shared = self._shared.get(key)
        if shared is None:
            shared = self._build(key, follower, view)
        self._last = shared
        return shared

    def _build(self, key: Hashable, follower: Follower, view: View | None) -> SharedPage | None:
        if key in self._reading:
            self._reading[key].append(follower)
            return None
        page = self._pages.from_memory(follower.positions, FRAME_CHANGES_MAX, self._filter, FRAME_BYTES_MAX, view)
        if page is None:
            self._reading[key] = [follower]
            self._fan_out.run(self._read(key, follower.positions, view))
            return None
        return self._keep(key, SharedPage(page, follower.positions, None if view is None else view.key, self._generation))

    async def _read(self, key: Hashable, starts: dict[str, Position], view: View | None) -> None:
        generation = self._generation
        try:
            page = await asyncio.to_thread(self._pages.read, starts, FRAME_CHANGES_MAX, self._filter, FRAME_BYTES_MAX, view)
        except Exception as error:
            if not isinstance(error, HeadwaterError):
                _log.exception("a page could not be read for the readers of a hub")
            for follower in self._reading.pop(key):
                self.release(follower)  # each meets the error by itself
            return
        self._keep(key, SharedPage(page, starts, None if view is None else view.key, generation))
        self._queue.extendleft(reversed(self._reading.pop(key)))
        self._fan_out.schedule(self)

    def _keep(self, key: Hashable, shared: SharedPage) -> SharedPage:
        self._fan_out.built += 1
        self._shared[key] = shared
        self._shared_bytes += shared.weight
        while self._shared_bytes > SHARED_BYTES_MAX and len(self._shared) > 1:
            self._shared_bytes -= self._shared.pop(next(iter(self._shared))).weight
        return shared

    def _forget_pages(self) -> None:
        self._shared.clear()
        self._shared_bytes = 0
        self._last = None


class Hubs:
    """All hubs of one event loop."""

    def __init__(self, stopping: Stopping) -> None:
        self.fan_out = FanOut()
        self._stopping = stopping
        self._hubs: dict[HubKey, Hub] = {}
        stopping.call(self._release_all)

    @property
    def wheel(self) -> TimerWheel:
        return self.fan_out.wheel

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set

    @property
    def followers(self) -> int:
        return sum(hub.followers for hub in self._hubs.values())

    def of(self, feed: RealmFeed, pointers: tuple[str, ...], filter: Filter) -> Hub:
        """The one that others already follow, or a new one, which is here while it has followers."""
        key = HubKey(feed, pointers, filter)
        return self._hubs.get(key) or Hub(self._hubs, key, self.fan_out)

    def _release_all(self) -> None:
        for hub in tuple(self._hubs.values()):
            hub.release_all()
