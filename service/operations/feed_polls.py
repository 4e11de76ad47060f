"""A long poll waits in a hub for the first page after its positions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from headwater.schemas.cursor import Position
from headwater.schemas.filters import Filter
from headwater.service.operations.feed_hub import Hubs
from headwater.service.operations.feed_pages import Page
from headwater.service.operations.followers import FoundViews, KnownView, SharedPage
from headwater.service.operations.realm_feeds import RealmFeed

ReadPage = Callable[[dict[str, Position]], Awaitable[Page]]
"""Reads the page behind positions as its reader may see it now."""


class KnownViews(Protocol):
    def known_view(self, pointers: tuple[str, ...], found: FoundViews) -> KnownView: ...


class _Poll:
    """Takes the first page that is news, and leaves."""

    def __init__(self, viewer: KnownViews, positions: dict[str, Position]) -> None:
        self.positions = positions
        self.shared: SharedPage | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._viewer = viewer
        self._pointers = tuple(positions)

    def known_view(self, found: FoundViews) -> KnownView:
        return self._viewer.known_view(self._pointers, found)

    def is_due(self, now: float) -> bool:
        return False

    def take(self, shared: SharedPage, now: float) -> bool:
        self.shared = shared
        return False

    def released(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def wait_for_page(
    hubs: Hubs,
    feed: RealmFeed,
    filter: Filter,
    limit: int,
    viewer: KnownViews,
    positions: dict[str, Position],
    seconds: float,
    read: ReadPage,
) -> Page | None:
    """The first page after the positions that moves them; None when the time is over or the server stops.

    It is the page that the hub has built for all, or read by `read` where that one is too long or the hub cannot say what this
    reader may see.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not hubs.is_stopping and (left := deadline - loop.time()) > 0:
        hub, poll = hubs.of(feed, tuple(positions), filter), _Poll(viewer, positions)
        hub.join(poll)
        timer = hubs.wheel.after(left, partial(hub.release, poll))
        try:
            await poll.done
        finally:
            timer.cancel()
            hub.leave(poll)
        if poll.shared is not None and len(poll.shared.page.entries) <= limit:
            return poll.shared.page
        if hubs.is_stopping or loop.time() >= deadline:
            return None
        page = await read(positions)
        if page.entries or page.advanced:
            return page
    return None
