"""The functions that list a root, prove the listing and compare it on Spark's workers; each here makes one that travels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from headwater.producer.content.folding import fold
from headwater.streaming.files.file_groups import file_groups, table_folder
from headwater.streaming.files.fingerprints import fingerprint, fingerprints, id_set, name_fingerprint
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.formats.reading import MetadataReader, Mode
from headwater.streaming.files.kinds import FileRef, FoundFile, kind_by_name
from headwater.streaming.files.marks.below_roots import named_again
from headwater.streaming.files.spark.mark_tasks import ID_ARROW, Batches, Task, batch_of, batched, rows_of
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.stores.listing import Share, pages_of
from headwater.streaming.files.sweep.candidates import CLAIM, Judge, Judgement, kept_folder_of
from headwater.streaming.files.sweep.condemned_files import OWN_FOLDER, ListPart, read_part, write_part
from headwater.streaming.files.sweep.proof import prove_listing
from headwater.streaming.files.sweep.roots import place_of
from headwater.streaming.reachability.id_set import IdCollector
from headwater.streaming.retained.bloom import BloomFilter

PREFIX_DDL = "prefix string, deep boolean"
LISTED_DDL = "id bigint, base bigint, name bigint, verdict string, location string, size bigint"
LISTED_ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("base", pa.int64()),
        ("name", pa.int64()),
        ("verdict", pa.string()),
        ("location", pa.string()),
        ("size", pa.int64()),
    ]
)
PLACED_DDL = "id bigint, location string"
PLACED_ARROW = pa.schema([("id", pa.int64()), ("location", pa.string())])
OWNED_DDL = "id bigint, manifest bigint"
OWNED_ARROW = pa.schema([("id", pa.int64()), ("manifest", pa.int64())])
KEYED_DDL = "manifest bigint, location string, length bigint"
KEYED_ARROW = pa.schema([("manifest", pa.int64()), ("location", pa.string()), ("length", pa.int64())])
PART_DDL = "first bigint, location string, digest string"
PART_ARROW = pa.schema([("first", pa.int64()), ("location", pa.string()), ("digest", pa.string())])
TEXT_DDL = "text string"
TEXT_ARROW = pa.schema([("text", pa.string())])
LIVE, OWN = "live", "own"
"""Verdicts besides those of `Judge`: files in use, and Headwater's own files, which are not counted."""


class ListPlan(msgspec.Struct, frozen=True, kw_only=True):
    files: WorkerFiles
    root: str
    judgement: Judgement
    listed_at: int


def listing(plan: ListPlan, broadcast: Any, filter_realm: str, noted: Any) -> Task:
    """Takes prefixes; yields judged files. With a Bloom filter, whether a file is in use is decided here. Folders with a Delta
    log, and claims, are reported through an accumulator."""

    def listed(batches: Batches) -> Batches:
        storages = plan.files.storages()
        judge = Judge(plan.judgement)
        bloom: BloomFilter | None = None if broadcast is None else broadcast.value
        found: set[bytes] = set()
        for share in (Share(*row) for batch in batches for row in rows_of(batch)):
            for page in pages_of(storages.of(share.prefix), share):
                if page:
                    yield _judged(plan, judge, bloom, filter_realm, page, found)
        for note in sorted(found):
            noted.add(note)

    return listed


def _judged(
    plan: ListPlan, judge: Judge, bloom: BloomFilter | None, realm: str, page: Sequence[FoundFile], found: set[bytes]
) -> pa.RecordBatch:
    ids = fingerprints((file.location for file in page), plan.judgement.salt)
    rows: list[tuple[Any, ...]] = []
    for file, id in zip(page, ids.tolist(), strict=True):
        location = file.location
        if location.startswith(plan.root + OWN_FOLDER):
            rows.append((None, None, None, OWN, None, file.size))
            continue
        log = kept_folder_of(location)
        if log:
            found.add(f"log {log}".encode("utf-8", "surrogatepass"))
        if location.endswith(CLAIM):
            found.add(f"claim {location}".encode("utf-8", "surrogatepass"))
        verdict = judge.verdict(file)
        base = judge.base(location)
        may_go = verdict in ("", "young")
        name = name_fingerprint(location, plan.judgement.salt) if may_go else None
        rows.append((id, base, name, verdict, location if verdict == "" else None, file.size))
    if bloom is not None:
        rows = [_filtered(row, bloom, realm) for row in rows]
    return batch_of(rows, LISTED_ARROW)


def _filtered(row: tuple[Any, ...], bloom: BloomFilter, realm: str) -> tuple[Any, ...]:
    id, base, name, _, _, size = row
    if id is None or not (bloom.keeps(realm, id) or (base is not None and bloom.keeps(realm, base))):
        return row
    return (id, base, name, LIVE, None, size)


def outside(folders: tuple[str, ...]) -> Task:
    """Takes candidates; yields those below none of these folded prefixes."""

    def kept(batches: Batches) -> Batches:
        for batch in batches:
            locations = batch.column(batch.schema.get_field_index("location")).to_pylist()
            yield batch.filter(pa.array([not fold(one).startswith(folders) for one in locations], pa.bool_()))

    return kept


# ── proof ───────────────────────────────────────────────────────────────────────────────────────────────────────


def owning(salt: bytes) -> Task:
    """Takes manifests; yields the fingerprints of their files, each with that of its manifest."""

    def owned(batches: Batches) -> Batches:
        for row in (row for batch in batches for row in batch.to_pylist()):
            ids = np.frombuffer(row["ids"], np.dtype("<i8")).astype(np.int64, copy=False)
            manifest = np.full(len(ids), fingerprint(row["location"], salt), np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array(manifest)], schema=OWNED_ARROW)

    return owned


def keying(salt: bytes) -> Task:
    """Takes manifests; yields each with the fingerprint of its location."""

    def keyed(batches: Batches) -> Batches:
        for batch in batches:
            rows = [(fingerprint(location, salt), location, length) for location, length in rows_of(batch)]
            yield batch_of(rows, KEYED_ARROW)

    return keyed


def naming_again(plan: ListPlan) -> Task:
    """Takes manifests of which a file was not listed; yields the locations of their files below the root."""

    def named(batches: Batches) -> Batches:
        reader = MetadataReader(plan.files.storages(), Mode.STRICT)
        for row in (row for batch in batches for row in batch.to_pylist()):
            locations = named_again(reader, ManifestRef(row["location"], row["length"]))
            yield from batched(_placed(plan, locations), PLACED_ARROW)

    return named


def placing(plan: ListPlan) -> Task:
    """Takes locations; yields those below the root."""

    def placed(batches: Batches) -> Batches:
        for batch in batches:
            yield batch_of(list(_placed(plan, batch.column(0).to_pylist())), PLACED_ARROW)

    return placed


def _placed(plan: ListPlan, locations: Iterable[str]) -> Iterator[tuple[int, str]]:
    place = place_of(plan.root)
    return ((fingerprint(one, plan.judgement.salt), one) for one in locations if place_of(one).startswith(place))


def heading(plan: ListPlan) -> Task:
    """⚠ Takes files in use that were not listed; yields those that are gone. One that is still there refuses the root."""

    def headed(batches: Batches) -> Batches:
        storages, nothing = plan.files.storages(), IdCollector().finish()
        locations = (one for batch in batches for one in batch.column(1).to_pylist())
        gone = prove_listing(storages, plan.root, locations, nothing, plan.judgement.salt, plan.listed_at)
        yield batch_of([(one,) for one in gone], TEXT_ARROW)

    return headed


# ── lists of fingerprints ───────────────────────────────────────────────────────────────────────────────────────


def writing_parts(files: WorkerFiles, stem: str) -> Task:
    """Takes sorted fingerprints of one range; yields the part that holds them."""

    def written(batches: Batches) -> Batches:
        ids = [batch.column(0).to_numpy() for batch in batches if len(batch)]
        if not ids:
            return
        whole = np.unique(np.concatenate(ids))
        number = partition_number()
        part = write_part(files.storages(), f"{stem}-p{number:05}.bin", id_set(whole))
        yield batch_of([(int(whole[0]), part.location, part.digest)], PART_ARROW)

    return written


def reading_parts(files: WorkerFiles) -> Task:
    def read(batches: Batches) -> Batches:
        storages = files.storages()
        for location, digest in (row for batch in batches for row in rows_of(batch)):
            ids = np.frombuffer(read_part(storages, ListPart(location, digest)).packed(), np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(ids)], schema=ID_ARROW)

    return read


# ── a sample ────────────────────────────────────────────────────────────────────────────────────────────────────


def grouping(root: str) -> Task:
    """Takes candidates, with whether they are confirmed; yields groups for people."""

    def grouped(batches: Batches) -> Batches:
        confirmed: set[str] = set()

        def refs() -> Iterator[FileRef]:
            for location, size, is_confirmed in (row for batch in batches for row in rows_of(batch)):
                confirmed.clear()
                if is_confirmed:
                    confirmed.add(location)
                yield FileRef(location, kind_by_name(location), size)

        groups = file_groups(refs(), lambda one: table_folder(root, one), confirmed)
        yield batch_of([(msgspec.json.encode(groups).decode(),)], TEXT_ARROW)

    return grouped


def partition_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
