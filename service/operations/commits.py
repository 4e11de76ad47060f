"""Commits operations once, however often they are sent, and finds the Change of an id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.pointer_log import OBJECT_ID_MAX, PointerLog
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.entry_ids import EMPTY, object_id_of, parse_id
from headwater.schemas.errors import (
    CatalogNotFound,
    HeadwaterError,
    ObjectNotFound,
    PointerNotFound,
    ReferenceNotFound,
    WrongObjectType,
)
from headwater.schemas.http.feed_json import CommitBody
from headwater.service.operations.encoded_entries import EncodedEntry
from headwater.service.operations.realm_feeds import RealmFeed

Send = Callable[[Sequence[CatalogOperation], str | None], Awaitable[CommitOutcome]]
"""Commits operations, if the branch stands at a commit."""
CheckAndSend = Callable[[Catalog, str, Sequence[CatalogOperation], Send], Awaitable[CommitOutcome]]
"""Checks the contents that operations put into a catalog, at a pointer, and sends what may be committed."""


async def commit(
    feed: RealmFeed,
    body: CommitBody,
    operations: Sequence[CatalogOperation],
    request_id: str | RequestKey | None,
    author: str,
    check_and_send: CheckAndSend,
    headers: dict[str, str] | None = None,
) -> tuple[str, CommitOutcome]:
    """The pointer, and the outcome of the commit. A catalog that is remembered wrongly costs a second look, and is never
    committed to. `headers` are the request's own, beside those of the body."""

    def request_of(operations: Sequence[CatalogOperation], expected_head: str | None) -> CatalogCommit:
        return CatalogCommit(
            feed.kernel,
            operations,
            CommitMeta(body.author or author, body.message, {**headers, **body.headers} if headers else body.headers),
            request_id=request_id,
            expected_head=body.expected_head or expected_head,
            base_commit=body.base_commit,
        )

    async def commit_to(catalog: Catalog) -> tuple[str, CommitOutcome]:
        pointer = branch_pointer(catalog.id, body.branch or catalog.default_branch)

        async def send(operations: Sequence[CatalogOperation], expected_head: str | None) -> CommitOutcome:
            is_same = operations is asked and expected_head is None
            return await feed.kernel.committer.commit_async(
                pointer, request if is_same else request_of(operations, expected_head)
            )

        return pointer, await check_and_send(catalog, pointer, operations, send)

    asked, request = operations, request_of(operations, None)
    known = feed.known_catalog(body.catalog)
    catalog = known if known is not None else await asyncio.to_thread(feed.read_catalog, body.catalog)
    try:
        return await commit_to(catalog)
    except (ReferenceNotFound, CatalogNotFound):
        found = await asyncio.to_thread(feed.read_catalog, body.catalog)
        if known is None or found.id == known.id:
            raise
        return await commit_to(found)


def find_commit(feed: RealmFeed, id: str, may_see: Callable[[str], bool] = lambda _: True) -> tuple[LogRecord, EncodedEntry]:
    """The Change of an id; ⚠ only if it is in its pointer's log, for objects of lost attempts are no commits. Nothing about
    a pointer that may not be seen is revealed, not even that its history was truncated."""
    raw = parse_id(id, field="id")
    if raw == EMPTY or object_id_of(raw) > OBJECT_ID_MAX:
        raise no_commit(id)
    try:
        logged = feed.kernel.walk.load(raw)
        if not may_see(logged.entry.pointer):
            raise no_commit(id)
        head = feed.watch.head(logged.entry.pointer)
    except (ObjectNotFound, PointerNotFound, WrongObjectType):
        raise no_commit(id) from None
    log, seq = PointerLog(feed.kernel, logged.entry.pointer), logged.entry.seq
    if seq > head.seq:
        head = log.head()
    if seq < head.row.floor:
        raise log.expired(seq, head)
    if seq > head.seq or feed.kernel.walk.at(head.newest, seq).entry_id != raw:
        raise no_commit(id)
    return logged, feed.encoded.keep(f"{feed.kernel.realm}/{log.pointer}", [logged], feed.name)[0]


def no_commit(id: str) -> HeadwaterError:
    return ReferenceNotFound(f"there is no commit {id}.", field="id", remedy="Read the changes to find it.")
