"""Says which chunks a write makes and supersedes, before it does, so that what no record names can be deleted later.

⚠ A row of the journal is written before the first chunk, and outlives every write: `publish_by` is long before its end. What it
names is deleted only after that, and only if the record as it is then does not name it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.producer.statistics.statistics_chunks import CHUNK_TYPE
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Conflict, OutcomeUnknown

JOURNAL_TYPE = "statistics-write"
JOURNAL_SECONDS = 3_600
"""Readers page through superseded chunks as long as that."""
WRITE_SECONDS_MAX = 240
_PAGE_ROWS = 16


class JournalEntry(msgspec.Struct, frozen=True, array_like=True):
    """The payload. Append new fields, never move one."""

    pointer: str
    key: KeyPath
    superseded: tuple[str, ...] = ()


OBJECT_TYPES.register(ObjectType(JOURNAL_TYPE, JournalEntry, Life.MUTABLE))

NamedChunks = Callable[[str, KeyPath], frozenset[str]]
"""The ids of all manifests and chunks that the record at a key of a pointer names now."""


class JournaledWrite:
    """One write: the ids of its chunks begin with its token."""

    def __init__(self, kernel: RealmKernel, pointer: str, key: KeyPath) -> None:
        self._kernel = kernel
        self._backend, self._clock = kernel.store.backend, kernel.store.clock
        self.history = kernel.store.restores.history
        self._entry = JournalEntry(pointer, key)
        self._token = secrets.token_hex(8)
        self._numbers = count()
        self._row = self._write(None, self._entry)

    def next_id(self) -> str:
        return f"{self._token}/{next(self._numbers):05d}"

    def supersede(self, ids: Sequence[str]) -> None:
        """Before the commit that makes them superfluous."""
        self._row = self._write(self._row, msgspec.structs.replace(self._entry, superseded=tuple(ids)))

    def require_time(self) -> None:
        """⚠ Before the commit: it must land long before the chunks may be deleted."""
        if self._clock.now_micros() > self._row.created_at + WRITE_SECONDS_MAX * MICROS:
            raise Conflict(
                f"the write took longer than {WRITE_SECONDS_MAX} seconds; nothing was published.",
                field="rows",
                remedy="Send the statistics in several parts, with the mode upsert.",
            )

    def _write(self, before: MutableRow | None, entry: JournalEntry) -> MutableRow:
        now = self._clock.now_micros()
        created_at = now if before is None else before.created_at
        row = next_row(
            JOURNAL_TYPE,
            self._token,
            before,
            msgspec.msgpack.encode(entry),
            now,
            expires_at=created_at + JOURNAL_SECONDS * MICROS,
        )
        if not cas_row(self._backend, self._kernel.realm, before, row, self._clock, has_token=True):
            raise OutcomeUnknown("the journal of statistics could not be written.", remedy="Try again.")
        return row


def delete_superseded(kernel: RealmKernel, named: NamedChunks, *, writes_max: int = 100) -> tuple[int, bool]:
    """How many chunks went, and whether more journal rows are due. Safe to repeat, and from several processes."""
    backend, clock = kernel.store.backend, kernel.store.clock
    now, deleted, handled = clock.now_micros(), 0, 0
    for row in backend.all_mutable(kernel.realm, JOURNAL_TYPE, page=_PAGE_ROWS):
        if row.expires_at > now:
            continue
        if handled == writes_max:
            return deleted, True
        entry = msgspec.msgpack.decode(row.payload, type=JournalEntry)
        kept = named(entry.pointer, entry.key)
        deleted += sum(_delete(kernel, chunk) for chunk in _chunks_of(kernel, row.key) if chunk.key not in kept)
        for id in entry.superseded:
            chunk = None if id in kept else backend.read_mutable(kernel.realm, CHUNK_TYPE, id)
            deleted += 0 if chunk is None else _delete(kernel, chunk)
        delete_row(backend, kernel.realm, row, clock)
        handled += 1
    return deleted, False


def _chunks_of(kernel: RealmKernel, token: str) -> Iterator[MutableRow]:
    for row in kernel.store.backend.all_mutable(kernel.realm, CHUNK_TYPE, after=f"{token}/", page=_PAGE_ROWS):
        if not row.key.startswith(f"{token}/"):
            return
        yield row


def _delete(kernel: RealmKernel, row: MutableRow) -> int:
    return int(delete_row(kernel.store.backend, kernel.realm, row, kernel.store.clock))
