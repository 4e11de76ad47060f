"""The functions that mark files in use on Spark's workers; each here makes one that travels.

Contents go to workers by the folder of their metadata, which is the range of the manifest cache, so that versions of one table
share what they have in common. Manifests that the cache lacks are decoded by any worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.producer.content.folding import last_segment
from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.files.fingerprints import fingerprints, folded_fingerprint
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.kinds import FileRef
from headwater.streaming.files.marks.below_roots import is_below_any
from headwater.streaming.files.marks.cache_ranges import range_of
from headwater.streaming.files.marks.content_marks import ContentMarks, MarkedManifest
from headwater.streaming.files.marks.manifest_marks import ManifestMarks
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.live_files import ContentReading
from headwater.streaming.files.sweep.retained_contents import ContentFiles, content_ids, contents_of
from headwater.streaming.reachability.retained_identifiers import Span, WalkShare

ID_ARROW = pa.schema([("id", pa.int64())])
CONTENT_DDL = "kind string, location string, type string, shard int"
CONTENT_ARROW = pa.schema([("kind", pa.string()), ("location", pa.string()), ("type", pa.string()), ("shard", pa.int32())])
MARK_DDL = (
    "what string, location string, length bigint, place string, ids binary, names binary, "
    "content string, kind string, shard int"
)
MARK_ARROW = pa.schema(
    [
        ("what", pa.string()),
        ("location", pa.string()),
        ("length", pa.int64()),
        ("place", pa.string()),
        ("ids", pa.binary()),
        ("names", pa.binary()),
        ("content", pa.string()),
        ("kind", pa.string()),
        ("shard", pa.int32()),
    ]
)
FILES, FILE, MANIFEST, MISSED = "files", "file", "manifest", "missed"
"""Rows of marks: single files of a content, as fingerprints; one of them below a root; a manifest; one still to be read."""
FOREIGN = "foreign"
"""⚠ The kind of row whose names count by themselves: the files lie below no root."""
PROTECTED, DAMAGE, REFUSED, BROKEN = "protected", "damage", "refused", "broken"
ROWS_PER_BATCH = 2_000

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Batches]


class MarkPlan(msgspec.Struct, frozen=True, kw_only=True):
    files: WorkerFiles
    salt: bytes
    roots: tuple[str, ...]
    accept_missing: tuple[str, ...]
    safeguards: FileSafeguards

    def reading(self, storages: Storages, *, decodes: bool) -> ContentReading:
        return ContentReading(
            storages,
            self.roots,
            self.salt,
            SystemClock(),
            accept_missing=self.accept_missing,
            safeguards=self.safeguards,
            cache=self.files.cache(storages, self.salt, self.safeguards.cache),
            decodes=decodes,
        )


# ── contents ────────────────────────────────────────────────────────────────────────────────────────────────────


def finding_contents(url: str, realm: str, spans: Mapping[str, Span], tasks: Sequence[Sequence[WalkShare]]) -> Task:
    """Takes task numbers; yields content ids."""

    def found(batches: Batches) -> Batches:
        backend = open_backend(url)
        try:
            for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                ids = content_ids(backend, realm, spans, tasks[number])
                yield pa.RecordBatch.from_arrays([pa.array(np.frombuffer(ids.packed(), np.int64))], schema=ID_ARROW)
        finally:
            backend.close()

    return found


def reading_contents(url: str, realm: str, spans: Mapping[str, Span], forgotten: frozenset[int], salt: bytes) -> Task:
    """Takes content ids; yields the contents with files."""

    def read(batches: Batches) -> Batches:
        backend = open_backend(url)
        try:
            for batch in batches:
                rows = [
                    (*content, range_of(content.location, salt)[0])
                    for content in contents_of(backend, realm, spans, batch.column(0).to_pylist(), forgotten)
                ]
                yield batch_of(rows, CONTENT_ARROW)
        finally:
            backend.close()

    return read


# ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def marking_contents(plan: MarkPlan) -> Task:
    """Takes contents; yields marks, of manifests only those that the cache has."""

    def marked(batches: Batches) -> Batches:
        reading = plan.reading(plan.files.storages(), decodes=False)
        try:
            contents = (ContentFiles(*row[:3]) for batch in batches for row in rows_of(batch))
            yield from batched(_marks(plan, reading, contents), MARK_ARROW)
            yield batch_of([*_notes(reading), *_proof(reading)], MARK_ARROW)
        finally:
            reading.marking.flush()

    return marked


def decoding_manifests(plan: MarkPlan) -> Task:
    """Takes manifests that the cache lacks; yields their marks."""

    def decoded(batches: Batches) -> Batches:
        reading = plan.reading(plan.files.storages(), decodes=True)

        def rows() -> Iterator[tuple[Any, ...]]:
            for batch in batches:
                for row in batch.to_pylist():
                    ref = ManifestRef(row["location"], row["length"])
                    marks = reading.manifest(ContentFiles(row["kind"], row["content"], ""), ref)
                    if marks is not None:
                        yield _manifest_row(plan, MarkedManifest(ref, marks))

        yield from batched(rows(), MARK_ARROW)
        yield batch_of(list(_notes(reading)), MARK_ARROW)

    return decoded


def keeping_manifests(plan: MarkPlan) -> Task:
    """Takes marks of manifests, by range, to be remembered."""

    def kept(batches: Batches) -> Batches:
        cache = plan.files.cache(plan.files.storages(), plan.salt, plan.safeguards.cache)
        count = 0
        for row in (row for batch in batches for row in batch.to_pylist()):
            if cache is not None:
                marks = ManifestMarks(row["ids"], row["names"], row["place"])
                cache.put_manifest(ManifestRef(row["location"], row["length"]), marks)
                count += 1
        if cache is not None:
            cache.flush()
        yield batch_of([(count,)], ID_ARROW)

    return kept


def exploding(column: str) -> Task:
    """Takes marks; yields single fingerprints."""

    def exploded(batches: Batches) -> Batches:
        for batch in batches:
            packed = [one for one in batch.column(batch.schema.get_field_index(column)).to_pylist() if one]
            ids = np.frombuffer(b"".join(packed), np.dtype("<i8")).astype(np.int64, copy=False)
            for at in range(0, len(ids), 50_000):
                yield pa.RecordBatch.from_arrays([pa.array(ids[at : at + 50_000])], schema=ID_ARROW)

    return exploded


def _marks(plan: MarkPlan, reading: ContentReading, contents: Iterable[ContentFiles]) -> Iterator[tuple[Any, ...]]:
    for content in contents:
        marks = reading.marks(content)
        yield from _file_rows(plan, marks.files)
        yield from _manifest_rows(plan, content, marks)
        for half in reading.marking.half_read():  # ⚠ others of this share have skipped what a failed attempt has read
            yield from _file_rows(plan, half.files)
            yield from _manifest_rows(plan, content, half)


def _manifest_rows(plan: MarkPlan, content: ContentFiles, marks: ContentMarks) -> Iterator[tuple[Any, ...]]:
    for manifest in marks.manifests:
        yield _manifest_row(plan, manifest)
    for ref in marks.missed:
        yield (MISSED, ref.location, ref.length, "", b"", b"", content.location, content.kind, 0)


def _file_rows(plan: MarkPlan, files: Sequence[FileRef]) -> Iterator[tuple[Any, ...]]:
    if not files:
        return
    below = [file.location for file in files if is_below_any(file.location, plan.roots)]
    named = {folded_fingerprint(last_segment(one), plan.salt) for one in {file.location for file in files} - set(below)}
    names = np.fromiter(named if plan.safeguards.foreign_names else (), np.dtype("<i8"))
    ids = fingerprints((file.location for file in files), plan.salt).astype("<i8")
    yield (FILES, "", None, "", ids.tobytes(), names.tobytes(), "", FOREIGN, 0)
    for location in below:
        yield (FILE, location, None, "", b"", b"", "", "", 0)


def _manifest_row(plan: MarkPlan, manifest: MarkedManifest) -> tuple[Any, ...]:
    marks = manifest.marks
    is_foreign = not marks.place.startswith(plan.roots) and plan.safeguards.foreign_names
    shard = range_of(manifest.ref.location, plan.salt)[0]
    kind = FOREIGN if is_foreign else ""
    return (MANIFEST, manifest.ref.location, manifest.ref.length, marks.place, marks.ids, marks.names, "", kind, shard)


def _proof(reading: ContentReading) -> Iterator[tuple[Any, ...]]:
    """⚠ Reported, not raised: the task would be retried without the cache, and what others took from the cache would count."""
    try:
        reading.marking.prove_cache(reading.reader)
    except MaintenanceRefused as refused:
        yield (BROKEN, refused.message, None, "", b"", b"", "", "", 0)


def _notes(reading: ContentReading) -> Iterator[tuple[Any, ...]]:
    for prefix in sorted(reading.protected):
        yield (PROTECTED, prefix, None, "", b"", b"", "", "", 0)
    for reason in reading.damage:
        yield (DAMAGE, reason, None, "", b"", b"", "", "", 0)
    for place, reason in reading.refused.items():
        yield (REFUSED, reason, None, place, b"", b"", "", "", 0)


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────


def batched(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    held: list[tuple[Any, ...]] = []
    for row in rows:
        held.append(row)
        if len(held) >= ROWS_PER_BATCH:
            yield batch_of(held, schema)
            held = []
    yield batch_of(held, schema)


def batch_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
