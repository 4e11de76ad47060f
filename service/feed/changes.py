"""`GET /changes`: a page of the feed, or 304, waiting for changes as long as the reader asks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from headwater.schemas.cursor import Position
from headwater.service.auth.feed_view import Viewer
from headwater.service.feed.feed_query import FeedQuery, changes_query, start_positions
from headwater.service.feed.page_json import page_etag, page_json
from headwater.service.http.responses import JSON, Response
from headwater.service.operations.feed_pages import PAGE_BYTES_MAX, FeedPages, Page, PointerPart, View
from headwater.service.operations.feed_wait import NewsWaiter, Stopping
from headwater.service.operations.realm_feeds import RealmFeed

KEPT_ANSWERS_MAX = 1_024
KEPT_BODY_BYTES_MAX = 4_096
NOT_MODIFIED = 304


class _CachedPage(NamedTuple):
    """An answer holds as long as the head is the very one that it was made under."""

    head: object
    realm: str
    etag: bytes
    answer: Response


class Changes:
    """Answers polls. Whoever asks the same again, with nothing new, gets the same bytes again."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping
        self._kept: OrderedDict[tuple[str, bytes], _CachedPage] = OrderedDict()

    async def answer(self, feed: RealmFeed, query_string: bytes, if_none_match: bytes | None, viewer: Viewer) -> Response:
        query = changes_query(query_string)
        view = await viewer.view(query.pointers)
        kept = self._kept.get((feed.name, query_string))
        if (
            view is None
            and kept is not None
            and kept.realm == feed.kernel.realm
            and kept.head is feed.watch.known(query.pointers[0])
        ):
            if if_none_match is None or kept.etag not in if_none_match:
                return kept.answer
            if not query.wait_seconds:
                return _not_modified(kept.etag)
        positions = await start_positions(feed.pages, query)
        page = await read_page(feed.pages, positions, query, view=view)
        etag = page_etag(page, feed.kernel.realm)
        if query.wait_seconds and ((if_none_match is not None and etag in if_none_match) or not page.entries):
            page = await self._wait(feed, query, page, viewer)
            etag = page_etag(page, feed.kernel.realm)
        if if_none_match is not None and etag in if_none_match:
            return _not_modified(etag)
        answer = Response(200, [JSON, (b"etag", etag), NO_CACHE], page_json(page, feed.kernel.realm, query.filter))
        if view is None and not query.wait_seconds and len(query.pointers) == 1 and len(answer.body) <= KEPT_BODY_BYTES_MAX:
            self._keep(feed, query_string, page.parts[query.pointers[0]], etag, answer)
        return answer

    async def _wait(self, feed: RealmFeed, query: FeedQuery, page: Page, viewer: Viewer) -> Page:
        """⚠ A filtered reader's range goes on while it waits: it must not look at the same entries again and again."""
        starts = {pointer: part.start for pointer, part in page.parts.items()}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + query.wait_seconds
        had_entries = bool(page.entries)
        with NewsWaiter(feed.watch, starts, self._stopping) as waiter:
            while not page.entries or had_entries:
                if not await waiter.wait(page.ends, max(0.0, deadline - loop.time())):
                    break
                view = await viewer.view(query.pointers)  # anew: what was revoked meanwhile is not shown
                page = await read_page(feed.pages, starts if had_entries else page.ends, query, view=view)
                if had_entries:
                    break
        parts = {pointer: PointerPart(starts[pointer], part.end, part.head) for pointer, part in page.parts.items()}
        return Page(page.entries, parts, page.withheld)

    def _keep(self, feed: RealmFeed, query_string: bytes, part: PointerPart, etag: bytes, answer: Response) -> None:
        key = (feed.name, query_string)
        self._kept[key] = _CachedPage(part.head, feed.kernel.realm, etag, answer)
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_ANSWERS_MAX:
            self._kept.popitem(last=False)


NO_CACHE = (b"cache-control", b"no-cache")
"""May be kept, but must be asked about: that is what the entity tag is for."""


def _not_modified(etag: bytes) -> Response:
    return Response(NOT_MODIFIED, [(b"etag", etag), NO_CACHE], b"")


async def read_page(
    pages: FeedPages,
    positions: dict[str, Position],
    query: FeedQuery,
    bytes_max: int = PAGE_BYTES_MAX,
    view: View | None = None,
) -> Page:
    page = pages.from_memory(positions, query.limit, query.filter, bytes_max, view)
    if page is not None:
        return page
    return await asyncio.to_thread(pages.read, positions, query.limit, query.filter, bytes_max, view)
