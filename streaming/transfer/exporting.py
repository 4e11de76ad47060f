"""Writes a realm, in use or closed, to a file as of one consistent cut: what is reached, or all rows as they are.

Memory: eight bytes and a bit for each object that is reached, and one frame of the file. The chain of every pointer and the
checksum of every object are checked on the way: damage is reported here, not when the file is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from headwater.persistence.log.committed_requests import COMMITTED_REQUEST
from headwater.persistence.objects import codec
from headwater.persistence.objects.object_types import all_object_types
from headwater.persistence.realms.realm_records import Realm
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.directory_checkpoints import DIRECTORY_TYPES
from headwater.persistence.records.principal_records import KEYS_TYPE, SECRET_TYPE
from headwater.persistence.rows import ObjectRow, ScannedRow, Table
from headwater.persistence.store import Store
from headwater.producer.statistics.statistics_chunks import CHUNK_TYPE
from headwater.schemas.errors import ObjectNotFound, RealmStateConflict
from headwater.streaming.reachability.id_set import IdSet
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.runs.realm_sets import RETAIN
from headwater.streaming.transfer.chain_check import check_chains, spans_of
from headwater.streaming.transfer.consistent_cut import ConsistentCut, Rows
from headwater.streaming.transfer.export_pin import export_pin
from headwater.streaming.transfer.exported_requests import exported_request
from headwater.streaming.transfer.file_format import FrameWriter, Section
from headwater.streaming.transfer.file_records import FileCounts, Header, MutableRecord, PointerRecord, Trailer
from headwater.streaming.transfer.new_file import destination, new_file

OBJECTS_PER_FETCH = 100
MUTABLE_ROWS_PER_PAGE = 500
CHUNK_ROWS_PER_PAGE = 16
"""Page size for statistics: each row takes up to 350 kB."""
SPLITS = 8

Progress = Callable[[str, int], None]


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    low_level: bool = False
    """All rows of the realm as they are, including garbage and mutable rows, but not the keys that tokens are signed with."""
    secrets: bool = False
    """Includes hashes of principals' secrets; low-level exports have them in any case."""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    instance: str
    file: str
    bytes: int
    sha256: str
    """Hash of the whole file, as `sha256sum` prints it."""
    low_level: bool
    counts: FileCounts
    reached: int


def realm_to_export(store: Store, name: str) -> Realm:
    realm = Realms(store).get(name)
    if realm.status not in RETAIN:
        raise RealmStateConflict(
            f"{name!r} is {realm.status} and cannot be exported.",
            field="realm",
            remedy="Only ACTIVE and INACTIVE realms are whole.",
            realm=name,
            status=str(realm.status),
        )
    return realm


def export_realm(
    store: Store,
    name: str,
    to: Path,
    identifiers: Identifiers,
    options: ExportOptions | None = None,
    *,
    supersede: str | None = None,
    on_progress: Progress = lambda _what, _count: None,
) -> ExportReport:
    """The file appears only when it is complete; `ExportNotWritten`, or any other error, leaves none."""
    options = options or ExportOptions()
    realm = realm_to_export(store, name)
    path = destination(to, name, store.clock.now_micros())
    with export_pin(store, realm.instance, supersede=supersede) as keep_pin, new_file(path) as file:
        writer = FrameWriter(file)
        trailer = _Export(store, realm, identifiers, options, writer, keep_pin, on_progress).run()
    return ExportReport(
        realm=name,
        instance=realm.instance,
        file=str(path),
        bytes=writer.position,
        sha256=writer.digest.hex(),
        low_level=options.low_level,
        counts=trailer.counts,
        reached=trailer.reached,
    )


class _Export:
    def __init__(
        self,
        store: Store,
        realm: Realm,
        identifiers: Identifiers,
        options: ExportOptions,
        writer: FrameWriter,
        keep_pin: Callable[[], None],
        on_progress: Progress,
    ) -> None:
        self._store = store
        self._backend = store.backend
        self._realm = realm
        self._identifiers = identifiers
        self._options = options
        self._writer = writer
        self._keep_pin = keep_pin
        self._progress = on_progress
        self._newest_id = 0

    def run(self) -> Trailer:
        cut = ConsistentCut(self._store.kernel(self._realm.instance))
        rows = cut.take()
        low_level = self._options.low_level
        header = Header(self._realm.name, self._realm.instance, low_level, self._store.clock.now_micros(), self._backend.name)
        self._writer.add(Section.HEADER, header)
        if low_level:
            kept, reached = None, 0
            names = sorted({*cut.names(), *rows})
        else:
            rows = {name: row for name, row in rows.items() if row.head}
            kept, names = self._walked(rows), sorted(rows)
            reached = len(kept)
        for name in names:
            self._writer.add(Section.NAMES, name)
        objects = self._objects(kept, rows)
        mutable = self._mutable_rows()
        for name in sorted(rows):
            self._writer.add(Section.POINTERS, PointerRecord.of(name, rows[name]))
        self._writer.flush()
        counts = FileCounts(names=len(names), objects=objects, mutable=mutable, pointers=len(rows))
        trailer = Trailer(counts, reached, self._newest_id, self._writer.digest)
        self._writer.add(Section.END, trailer)
        self._writer.flush()
        return trailer

    def _walked(self, rows: Rows) -> IdSet:
        entries = check_chains(self._backend, self._realm.instance, rows)
        self._progress("entries", entries)
        self._keep_pin()
        return self._identifiers.retained(self._backend, self._realm.instance, spans_of(rows))

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    def _objects(self, kept: IdSet | None, pointers: Rows) -> int:
        """Returns the number of rows written. ⚠ The scan comes after the cut, so it sees all that the cut reaches."""
        written, reached = 0, 0
        for ids in _batches(self._ids(kept), OBJECTS_PER_FETCH):
            found = self._backend.fetch_objects(self._realm.instance, ids)
            for object_id, rows in found.items():
                written += self._add(object_id, rows, kept, pointers)
                reached += kept is not None and object_id in kept
            self._progress("objects", len(found))
            self._keep_pin()
        if kept is not None and reached != len(kept):
            raise ObjectNotFound(
                f"{len(kept) - reached} objects that the cut reaches are not in the store.",
                field="realm",
                remedy="`headwater maintain check` names them.",
                missing=len(kept) - reached,
            )
        return written

    def _add(self, object_id: int, rows: Sequence[ObjectRow], kept: IdSet | None, pointers: Rows) -> int:
        if rows[0].type == COMMITTED_REQUEST.name:  # each row stands alone, under an id that nobody issued
            rows_prove = self._backend.abilities.commits_in_one_transaction
            requests = (exported_request(row, pointers, kept, rows_prove=rows_prove) for row in rows)
            rows = [row for row in requests if row is not None]
        else:
            if not self._options.low_level:
                codec.checked_body(rows)
            self._newest_id = max(self._newest_id, object_id)
        for row in rows:
            self._writer.add(Section.OBJECTS, row)
        return len(rows)

    def _ids(self, kept: IdSet | None) -> Iterator[int]:
        """What the cut reaches, committed requests, and objects of types without an identifier: everything that a sweep would
        leave."""
        decided = self._identifiers.purgeable_types()
        attached = all_object_types().attached()  # copies of what lies elsewhere: they are created again
        last = 0
        for row in self._scanned(Table.OBJECTS):
            if row.id != last and row.type not in attached and (kept is None or row.id in kept or row.type not in decided):
                yield row.id
            last = row.id  # parts of one object come together

    # ── mutable rows ─────────────────────────────────────────────────────────────────────────────────────────

    def _mutable_rows(self) -> int:
        if self._options.low_level:
            types = sorted({row.type for row in self._scanned(Table.MUTABLE)} - {KEYS_TYPE, *DIRECTORY_TYPES})
        else:
            types = [CHUNK_TYPE, *([SECRET_TYPE] if self._options.secrets else [])]
        written = 0
        for type in types:
            page = CHUNK_ROWS_PER_PAGE if type == CHUNK_TYPE else MUTABLE_ROWS_PER_PAGE
            for row in self._backend.all_mutable(self._realm.instance, type, page=page):
                self._writer.add(Section.MUTABLE, MutableRecord.of(row))
                written += 1
        return written

    def _scanned(self, table: Table) -> Iterator[ScannedRow]:
        for split in self._backend.splits(table, SPLITS):
            yield from self._backend.scan(split, realm=self._realm.instance)


def _batches(ids: Iterator[int], size: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for object_id in ids:
        batch.append(object_id)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
