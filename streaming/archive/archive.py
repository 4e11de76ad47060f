"""Writes Changes from the log or from Kafka to an archive that holds each exactly once and without a gap.

⚠ The archive's own position decides, not a batch id: a batch that is repeated, in whole or in part, is recognized, and one that
does not begin where the archive ends is refused.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from headwater.persistence.coordination.work_leases import HeldLease, WorkLeases
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import ChainBroken, CursorReset, MaintenanceRunning
from headwater.streaming.archive.archive_targets import ArchiveTarget, Decide
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.sources.linked_batches import PointerBatch, pointer_batches
from headwater.streaming.sources.log_heads import check_seen
from headwater.streaming.sources.log_offsets import LogOffset, OffsetPosition
from headwater.streaming.sources.open_stores import opened_store, realm_instance
from headwater.streaming.spark.stream_runner import Report, run_until_caught_up, run_until_stopped, silent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEASE_SECONDS = 30.0
"""After a crash no other process archives for this long."""
POINTERS_PER_READ = 1_000

Reached = Callable[[LogOffset | None], None]
"""Called with the position that the archive has reached."""


def reader_of(place: str) -> str:
    """The name under which history is kept for the archive at that location."""
    return f"archive-{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def archive_log(
    spark: SparkSession,
    target: ArchiveTarget,
    *,
    store: str,
    realm: str = "default",
    reader: str = "archive",
    changes_per_batch: int = 100_000,
    is_stopping: Callable[[], bool] | None = None,
    report: Report = silent,
    lease_seconds: float = LEASE_SECONDS,
) -> int:
    """Bring the archive up to the log; with `is_stopping`, continue until it says so. Returns the number of rows read. History
    behind the archive is kept for it under the name `reader`, up to a maximum age. `MaintenanceRunning` while another process
    archives under that name."""
    with _alone(store, realm, reader, lease_seconds) as lease:
        target.complete(lease.memo)
        position = target.position()
        _require_same_log(store, realm, position)
        kept_for = _registered(store, realm, reader, lease)
        kept_for(position)
        target.remove_unfinished()
        options = {"store": store, "realm": realm, "changes_per_batch": str(changes_per_batch)}
        options |= {"after": position.as_text() if position else "earliest"}
        options |= {} if is_stopping else {"until": "start"}
        changes = spark.readStream.format("headwater").options(**options).load()
        # The archive knows its position, so Spark's own record need not outlive the run.
        with tempfile.TemporaryDirectory(prefix="headwater-archive-", ignore_cleanup_errors=True) as checkpoint:
            writer = changes.writeStream.foreachBatch(functools.partial(_archive_batch, target, kept_for, lease.decide))
            writer = writer.option("checkpointLocation", f"file://{checkpoint}")
            if is_stopping:
                return run_until_stopped(writer, is_stopping=is_stopping, report=report)
            return run_until_caught_up(writer, report=report)


def archive_stream(changes: DataFrame, target: ArchiveTarget, checkpoint: str) -> Any:
    """The writer of any stream with these columns, e.g. from Kafka, whose offsets only the checkpoint knows."""
    target.position()
    archive_batch = functools.partial(_archive_batch, target, lambda _: None, lambda _: None)
    return changes.writeStream.foreachBatch(archive_batch).option("checkpointLocation", checkpoint)


def _require_same_log(store: str, realm: str, position: LogOffset | None) -> None:
    """⚠ Called before the archive's pin moves: if the archive holds entries that a restore removed, the log must be archived
    again from the start."""
    if position is None:
        return
    opened = opened_store(store)
    kernel, names = opened.kernel(realm_instance(opened, realm)), list(position.pointers)
    try:
        for first in range(0, len(names), POINTERS_PER_READ):
            rows = opened.backend.read_pointers(kernel.realm, names[first : first + POINTERS_PER_READ])
            heads = {name: OffsetPosition(row.seq, row.head.hex()) for name, row in rows.items() if row.head}
            check_seen(kernel, position, LogOffset(kernel.realm, heads))
    except CursorReset as reset:
        raise CursorReset(
            f"the archive holds entries that the log has lost: {reset.message}",
            field="archive",
            remedy="Begin another archive; this one stays readable as it is.",
        ) from reset


def _registered(store: str, realm: str, reader: str, lease: HeldLease) -> Reached:
    """⚠ Called with what the archive already holds: only that may be dropped from the log. A writer that has lost the lease
    moves no pin: its successor saved the archive's position before doing anything else."""
    opened = opened_store(store)
    readers = RegisteredReaders(opened.backend, realm_instance(opened, realm), opened.clock)

    def save(position: LogOffset | None) -> None:
        positions = {} if position is None else {name: at.seq for name, at in position.pointers.items()}
        readers.save(reader, positions, may_write=lease.require)

    return save


@contextmanager
def _alone(store: str, realm: str, reader: str, lease_seconds: float) -> Iterator[HeldLease]:
    """One writer at a time, as long as its lease holds."""
    opened = opened_store(store)
    leases = WorkLeases(opened.backend, opened.clock, lease_seconds)
    key = lease_key(realm_instance(opened, realm), reader)
    seen = leases.look(key)
    lease = None if seen.is_held else leases.take(key, secrets.token_hex(8), seen)
    if lease is None:
        until = f" Its lease ends at {time_text(seen.until)} if it does not live." if seen.is_held else ""
        raise MaintenanceRunning(
            f"another process is writing the archive {reader!r} of {realm!r}.{until}",
            field="archive",
            remedy="Wait for it; one that was killed loses its lease by itself.",
        )
    lease.keep()
    try:
        yield lease
    finally:
        lease.release()


def lease_key(instance: str, reader: str) -> str:
    return f"archive/{instance}/{reader}"


def _archive_batch(target: ArchiveTarget, kept_for: Reached, decide: Decide, batch: DataFrame, batch_id: int) -> None:
    """Cached while it is counted and written, so that the log is read once."""
    batch = batch.persist()
    try:
        found = pointer_batches(batch)
        if not found:
            return
        archived = target.position() or LogOffset(found[0].realm, {})
        if any(one.realm != archived.realm for one in found):
            raise ChainBroken(f"the archive is of realm {archived.realm}, the batch of {found[0].realm}.")
        new = batch
        if any(one.first <= archived.seq_of(one.pointer) for one in found):
            new = _behind(batch, archived)
            found = pointer_batches(new)
        reached = reached_by(archived, found)
        if reached != archived:
            target.append(new, reached, decide)
        kept_for(reached)
    finally:
        batch.unpersist()


def reached_by(archived: LogOffset, found: list[PointerBatch]) -> LogOffset:
    """The archive's position after this batch; `ChainBroken` if something is missing or belongs to another history. Pure."""
    reached = dict(archived.pointers)
    for one in found:
        known = archived.pointers.get(one.pointer)
        if not one.is_linked:
            raise ChainBroken(f"{one.pointer}: entries {one.first} to {one.last} of the batch are not one history, each once.")
        if known is not None and one.first != known.seq + 1:
            raise ChainBroken(f"{one.pointer}: the archive ends at {known.seq}, the batch begins at {one.first}.")
        if known is not None and known.entry_id not in ("", one.previous_id):
            raise ChainBroken(f"{one.pointer}: the batch does not follow the entry {known.seq} that the archive ends with.")
        reached[one.pointer] = OffsetPosition(one.last, one.last_id)
    return LogOffset(archived.realm, reached)


def _behind(batch: DataFrame, archived: LogOffset) -> DataFrame:
    positions = batch.sparkSession.createDataFrame(
        [(name, at.seq) for name, at in archived.pointers.items()], "pointer string, archived bigint"
    )
    joined = batch.join(sql.broadcast(positions), "pointer", "left")
    return joined.where(sql.col("seq") > sql.coalesce("archived", sql.lit(0))).select(*batch.columns)
