"""Lists every move of every branch and tag of a catalog, newest first, in pages that can be resumed.

Deleted references are in it too. The order is total (time, pointer, seq), so a token is one position for all pointers, and what
is committed while pages are read never moves what is yet to come.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator

import msgspec

from headwater.persistence.log.log_entry import ENTRY, LogRecord, change_of
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.producer.page_tokens import check_limit, make_token, read_token
from headwater.producer.pointer_names import catalog_prefix, parse_reference_pointer
from headwater.schemas.change import Change, Kind
from headwater.schemas.entry_ids import object_id_of

PAGE_ENTRIES_MAX = 1_000
ENTRIES_SCANNED_MAX = 10_000
"""For one page that filters."""
OPERATIONS_MAX = 20_000
"""A page ends after the Change with which it reaches this many operations."""

Shown = Callable[[Change], Change | None]
"""A Change as its reader may see it; None where nothing of it may be seen."""


class ReferenceLogPosition(msgspec.Struct, frozen=True, array_like=True, order=True):
    time: int
    pointer: str
    seq: int


class ReferenceLogPage(msgspec.Struct, frozen=True):
    changes: list[Change]
    next_token: str | None
    """With a page that filters, there may be one though nothing was found."""


class ReferenceLog:
    """The reference log of one catalog."""

    def __init__(self, kernel: RealmKernel, catalog_id: int) -> None:
        self._kernel = kernel
        self._catalog_id = catalog_id

    def page(
        self,
        *,
        token: str | None = None,
        limit: int = 100,
        kinds: Collection[Kind] | None = None,
        shown: Shown = lambda change: change,
    ) -> ReferenceLogPage:
        """Entries older than the token's, down to each pointer's floor, newest first."""
        check_limit(limit, PAGE_ENTRIES_MAX)
        before = None if token is None else read_token(token, ReferenceLogPosition)
        found: list[Change] = []
        operations = 0
        name = self._kernel.realm_name
        for scanned, (position, logged) in enumerate(self._merged(before)):
            if len(found) == limit or scanned == ENTRIES_SCANNED_MAX or operations >= OPERATIONS_MAX:
                return ReferenceLogPage(found, None if before is None else make_token(before))
            before = position
            change = shown(change_of(logged, name)) if not kinds or logged.entry.kind in kinds else None
            if change is not None:
                found.append(change)
                operations += len(change.operations)
        return ReferenceLogPage(found, None)

    def all(self, kinds: Collection[Kind] | None = None) -> Iterator[Change]:
        """The Changes of all references, newest first."""
        page = self.page(kinds=kinds, limit=PAGE_ENTRIES_MAX)
        yield from page.changes
        while page.next_token is not None:
            page = self.page(token=page.next_token, kinds=kinds, limit=PAGE_ENTRIES_MAX)
            yield from page.changes

    def _merged(self, before: ReferenceLogPosition | None) -> Iterator[tuple[ReferenceLogPosition, LogRecord]]:
        """One entry of each pointer is held at a time; predecessors come in runs of one bulk read."""
        streams = [self._backward(newest, row, before) for newest, row in self._heads()]
        return heapq.merge(*streams, key=lambda pair: pair[0], reverse=True)

    def _backward(
        self, newest: LogRecord, row: PointerRow, before: ReferenceLogPosition | None
    ) -> Iterator[tuple[ReferenceLogPosition, LogRecord]]:
        start: LogRecord | None = newest
        if before is not None and _position(newest) >= before:
            # The newest entry that is older than the position; entries of one pointer never share a time.
            seq = self._kernel.walk.first_after(newest, before.time - 1, row.floor) - 1
            at_that_time = before.pointer > newest.entry.pointer and seq < newest.entry.seq
            if at_that_time and self._kernel.walk.at(newest, seq + 1).entry.time == before.time:
                seq += 1
            start = self._kernel.walk.at(newest, seq) if seq >= row.floor else None
        if start is not None:
            for logged in self._kernel.walk.backward(start, start.entry.seq - row.floor + 1):
                yield _position(logged), logged

    def _heads(self) -> Iterator[tuple[LogRecord, PointerRow]]:
        backend, realm = self._kernel.store.backend, self._kernel.realm
        for names in backend.name_pages(realm, prefix=catalog_prefix(self._catalog_id)):
            references = [name for name in names if parse_reference_pointer(name) is not None]
            rows = [row for row in backend.read_pointers(realm, references).values() if row.head]
            self._kernel.objects.fetch_many(ENTRY, [object_id_of(row.head) for row in rows])
            yield from ((self._kernel.walk.header(row.head), row) for row in rows)


def _position(logged: LogRecord) -> ReferenceLogPosition:
    return ReferenceLogPosition(logged.entry.time, logged.entry.pointer, logged.entry.seq)
