"""`GET /changes`: a page of the feed, or 304, waiting for changes as long as the reader asks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from headwater.schemas.cursor import Position
from headwater.schemas.filters import Filter
from headwater.service.auth.feed_view import Viewer
from headwater.service.feed.feed_query import FeedQuery, changes_query, start_positions
from headwater.service.feed.named_branch import with_pointers
from headwater.service.feed.page_json import page_etag, page_json
from headwater.service.http.responses import JSON, Response
from headwater.service.operations.feed_hub import Hubs
from headwater.service.operations.feed_pages import PAGE_BYTES_MAX, FeedPages, Page, PointerPart, View
from headwater.service.operations.feed_polls import wait_for_page
from headwater.service.operations.realm_feeds import RealmFeed

KEPT_ANSWERS_MAX = 1_024
KEPT_BODY_BYTES_MAX = 1024 * 1024
KEPT_BYTES_MAX = 16 * 1024 * 1024
"""Total of all kept bodies, and of the queries that they answer."""
NOT_MODIFIED = 304


class _CachedPage(NamedTuple):
    """An answer holds as long as the head is the very one that it was made under."""

    head: object
    realm: str
    etag: bytes
    answer: Response


class Changes:
    """Answers polls. The same request again, with nothing new, gets the same bytes."""

    def __init__(self, hubs: Hubs) -> None:
        self._hubs = hubs
        self._kept: OrderedDict[tuple[str, bytes], _CachedPage] = OrderedDict()
        self._kept_bytes = 0

    async def answer(self, feed: RealmFeed, query_string: bytes, if_none_match: bytes | None, viewer: Viewer) -> Response:
        query = changes_query(query_string)
        if query.catalog is not None:
            query = await with_pointers(feed, viewer, query)
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
        page = await self._first(feed, query, view, PAGE_BYTES_MAX)
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

    async def page(self, feed: RealmFeed, query: FeedQuery, viewer: Viewer, bytes_max: int) -> tuple[Page, Filter]:
        """The page itself, and the filter that its cursor carries, for other encodings than JSON."""
        query = await with_pointers(feed, viewer, query)
        page = await self._first(feed, query, await viewer.view(query.pointers), bytes_max)
        if query.wait_seconds and not page.entries:
            page = await self._wait(feed, query, page, viewer, bytes_max)
        return page, query.filter

    async def _first(self, feed: RealmFeed, query: FeedQuery, view: View | None, bytes_max: int) -> Page:
        positions = await start_positions(feed.pages, query)
        return await read_page(feed.pages, positions, query, bytes_max, view)

    async def _wait(
        self, feed: RealmFeed, query: FeedQuery, page: Page, viewer: Viewer, bytes_max: int = PAGE_BYTES_MAX
    ) -> Page:
        """⚠ A filtered reader's range continues while it waits: it must not look at the same entries again and again."""
        starts = {pointer: part.start for pointer, part in page.parts.items()}
        had_entries = bool(page.entries)

        async def read(positions: dict[str, Position]) -> Page:
            view = await viewer.view(query.pointers)  # again: what was revoked meanwhile is not shown
            return await read_page(feed.pages, positions, query, bytes_max, view)

        loop = asyncio.get_running_loop()
        deadline = loop.time() + query.wait_seconds
        while not page.entries or had_entries:
            left = deadline - loop.time()
            found = await wait_for_page(self._hubs, feed, query.filter, query.limit, viewer, page.ends, left, read)
            if found is None:
                break
            page = await read(starts) if had_entries else found
            if had_entries:
                break
        parts = {pointer: PointerPart(starts[pointer], part.end, part.head) for pointer, part in page.parts.items()}
        return Page(page.entries, parts, page.withheld)

    def _keep(self, feed: RealmFeed, query_string: bytes, part: PointerPart, etag: bytes, answer: Response) -> None:
        key = (feed.name, query_string)
        self._drop(key)
        self._kept[key] = _CachedPage(part.head, feed.kernel.realm, etag, answer)
        self._kept_bytes += len(query_string) + len(answer.body)
        while len(self._kept) > KEPT_ANSWERS_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, bytes]) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._kept_bytes -= len(key[1]) + len(dropped.answer.body)


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
