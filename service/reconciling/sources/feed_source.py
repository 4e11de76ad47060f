"""Reads the feed of a branch of another Headwater: every entry, by seq, without a gap."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import msgspec

from headwater.producer.connectors.source_spi import (
    ConnectorSpec,
    SourceCommit,
    SourceContent,
    SourceOperation,
    SourceState,
)
from headwater.schemas.change import COMMITTING_KINDS, Change, Kind, Op, Operation
from headwater.schemas.errors import CursorExpired, CursorReset, InvalidInput, SourceRefused
from headwater.service.reconciling.sources.upstream import (
    Listing,
    Upstream,
    check_known,
    check_uri,
    decoded,
    log_in,
    refused,
)

PROPERTIES = frozenset({"realm", "catalog", "branch"})
PAGE_CHANGES = 500
_GONE = (httpx.codes.GONE, httpx.codes.NOT_FOUND)


class _Head(msgspec.Struct, frozen=True):
    seq: int
    entry_id: str


class _Page(msgspec.Struct, frozen=True):
    changes: list[Change]
    cursor: str
    head: _Head
    withheld: bool = False


class _Content(msgspec.Struct, frozen=True):
    key: tuple[str, ...]
    type: str
    content_id: str
    value: dict[str, object]


class _Snapshot(msgspec.Struct, frozen=True):
    at: _Head
    entries: list[_Content]
    next_token: str | None = None


class FeedSource:
    """A position is the id of an entry: a log that was replaced by another one does not have it."""

    def __init__(self, upstream: Upstream, spec: ConnectorSpec, secret: bytes) -> None:
        self._upstream = upstream
        given = spec.properties
        realm = quote(given.get("realm", "default"), safe="")
        self._feed = f"/feed/v1/{realm}"
        self._branch = {"catalog": given["catalog"], "branch": given.get("branch", "main")}
        log_in(upstream, secret, f"/manage/v1/{realm}/oauth/tokens")

    def check(self) -> None:
        self._page("latest")

    def close(self) -> None:
        self._upstream.close()

    def changes(self, position: str) -> Iterator[SourceCommit]:
        after, seen = position or "earliest", None
        while True:
            page = self._page(after)
            if page.withheld:
                raise SourceRefused(
                    "the feed leaves out keys that the connector may not see.",
                    field="secret_ref",
                    remedy="Grant its principal feed.read over the whole catalog.",
                )
            for change in page.changes:
                if seen is not None and change.seq != seen + 1:
                    raise SourceRefused(f"entry {change.seq} follows entry {seen}.", field="uri")
                if change.seq > 1 and seen is None and not position:
                    raise CursorExpired(f"the feed begins with entry {change.seq}.", field="position")
                seen = change.seq
                yield self._commit(change)
            after = page.cursor
            if not page.changes or page.changes[-1].seq >= page.head.seq:
                return

    def state(self) -> SourceState:
        path = f"{self._feed}/snapshot"
        first = self._upstream.read(path, _Snapshot, self._branch)
        return SourceState(position=first.at.entry_id, version=first.at.entry_id, contents=self._contents(path, first))

    def _contents(self, path: str, page: _Snapshot) -> Iterator[SourceContent]:
        listing = Listing(path)
        while True:
            for one in page.entries:
                yield SourceContent(key=one.key, id=one.content_id, type=one.type, value=one.value)
            token = listing.next_page(page.next_token, len(page.entries))
            if token is None:
                return
            page = self._upstream.read(path, _Snapshot, {"token": token})

    def _page(self, after: str) -> _Page:
        path = f"{self._feed}/changes"
        answer = self._upstream.get(path, {**self._branch, "after": after, "limit": PAGE_CHANGES})
        if answer.status_code in _GONE:
            raise CursorExpired(f"the feed does not continue: {answer.text[:200]}", field="position")
        if answer.status_code != httpx.codes.OK:
            raise refused(path, answer)
        return decoded(path, answer, _Page)

    def _commit(self, change: Change) -> SourceCommit:
        if change.kind not in COMMITTING_KINDS and not (change.kind is Kind.CREATE and change.base is None):
            raise CursorReset(f"the branch was moved by {change.kind} at entry {change.seq}.", field="position")
        return SourceCommit(
            position=change.entry_id,
            version=change.entry_id,
            author=change.author,
            message=change.message,
            time=change.time,
            operations=tuple(_operation(one) for one in change.operations),
        )


def _operation(one: Operation) -> SourceOperation:
    if one.op is Op.DELETE:
        return SourceOperation(op=Op.DELETE, key=one.key)
    value = one.after if one.after is not None else one.before
    if one.op not in (Op.PUT, Op.RENAME) or value is None:
        raise SourceRefused(f"an operation {one.op[:40]!r} is not known.", field="uri")
    content = SourceContent(key=one.key, id=one.content_id, type=one.type, value=value)
    return SourceOperation(op=one.op, key=one.key, from_key=one.from_key, content=content)


def check_spec(spec: ConnectorSpec) -> None:
    check_uri(spec)
    check_known(spec, PROPERTIES)
    if not spec.properties.get("catalog"):
        raise InvalidInput("the catalog to follow is missing.", field="properties.catalog", remedy="Set catalog=NAME.")
