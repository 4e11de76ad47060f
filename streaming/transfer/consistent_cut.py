"""Chooses one head for each pointer of a realm, so that none refers to what another does not have.

Each pointer moves on its own, so heads that are read one after the other may not belong together: a branch could be created
from a commit that is newer than the head that was read of its source. ⚠ So whatever an entry of the cut refers to (the base of
a create or assign, the source of a merge) is in the cut too: heads are moved forward until that holds. This ends, because all
of it was there when the last head was read. Pointers of records are read until none moves, those that refer to others first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.realms.realm_init import REALM_POINTERS
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import ObjectNotFound

Rows = dict[str, PointerRow]

READS_MAX = 20
ENTRIES_PER_PAGE = 200
NAMES_PER_PAGE = 1_000


class ConsistentCut:
    """Makes one cut of one realm instance."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel
        self._backend = kernel.store.backend

    def take(self) -> Rows:
        """Pointers that are only reserved are in it too, with no head."""
        before = self._read()
        for _ in range(READS_MAX):
            now = self._read()
            if _heads_of_records(before) == _heads_of_records(now):
                break
            before = now
        return self._closed(now, before)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> Rows:
        names = list(self.names())
        of_realm = [name for name in names if not name.startswith("cat/")]
        of_catalogs = [name for name in names if name.startswith("cat/")]
        rows: Rows = {}
        for first in range(0, len(of_catalogs), NAMES_PER_PAGE):
            rows |= self._backend.read_pointers(self._kernel.realm, of_catalogs[first : first + NAMES_PER_PAGE])
        for name in sorted(of_realm, key=_referring_first):
            row = self._backend.read_pointer(self._kernel.realm, name)
            if row is not None:
                rows[name] = row
        return rows

    def names(self) -> Iterator[str]:
        return self._backend.all_names(self._kernel.realm, page=NAMES_PER_PAGE)

    # ── closing under what entries refer to ─────────────────────────────────────────────────────────────────

    def _closed(self, rows: Rows, before: Rows) -> Rows:
        """Only entries added between the two reads can refer to what the second one has missed."""
        waiting = [(name, before[name].seq if name in before else row.floor - 1) for name, row in rows.items() if row.head]
        while waiting:
            name, after_seq = waiting.pop()
            for logged in self._entries(rows[name], after_seq):
                for pointer, seq in self._referred(logged):
                    known = rows.get(pointer)
                    moved = self._row_at(pointer, seq, known) if known is None or known.seq < seq else None
                    if moved is not None:
                        rows[pointer] = moved
                        waiting.append((pointer, moved.floor - 1 if known is None else known.seq))
        return rows

    def _entries(self, row: PointerRow, after_seq: int) -> Iterator[LogRecord]:
        if after_seq >= row.seq:
            return
        newest = self._kernel.walk.load(row.head)
        for first in range(max(after_seq + 1, row.floor), row.seq + 1, ENTRIES_PER_PAGE):
            yield from self._kernel.walk.between(newest, first, min(first + ENTRIES_PER_PAGE - 1, row.seq))

    def _referred(self, logged: LogRecord) -> Iterator[tuple[str, int]]:
        entry = logged.entry
        if entry.base is not None and entry.base.seq:
            yield entry.base.pointer, entry.base.seq
        if entry.source is not None and entry.source.commit != EMPTY:
            with suppress(ObjectNotFound):  # it has expired since
                source = self._kernel.walk.load(entry.source.commit).entry
                yield source.pointer, source.seq

    def _row_at(self, pointer: str, seq: int, known: PointerRow | None) -> PointerRow | None:
        """None if the pointer does not exist any more: its catalog is being purged."""
        row = self._backend.read_pointer(self._kernel.realm, pointer)
        if row is None or row.seq < seq:
            return None
        head = self._kernel.walk.at(self._kernel.walk.load(row.head), seq)
        floor, anchor = (row.floor, row.anchor) if known is None or not known.head else (known.floor, known.anchor)
        return msgspec.structs.replace(row, head=head.entry_id, seq=seq, floor=floor, anchor=anchor)


def _heads_of_records(rows: Rows) -> dict[str, bytes]:
    """Heads of everything but branches and tags, which may move all the time."""
    return {name: row.head for name, row in rows.items() if "/heads/" not in name and "/tags/" not in name}


def _referring_first(name: str, known: Sequence[str] = REALM_POINTERS) -> int:
    """Grants name principals, and so on: a realm creates its pointers in the opposite order."""
    return len(known) - known.index(name) if name in known else 0
