"""The functions that record what goes and delete it on Spark's workers; each here makes one that travels.

⚠ What is deleted is what was recorded: a worker that is lost is replaced by another one with the same list, whatever a second
listing would show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.schemas.errors import HeadwaterError, MaintenanceSuperseded
from headwater.streaming.files.deleted_keys import keep_keys, keys_in
from headwater.streaming.files.kinds import FileRef, kind_by_name
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.spark.list_tasks import TEXT_ARROW, partition_number
from headwater.streaming.files.spark.mark_tasks import Batches, Task, batch_of, rows_of
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.sweep.executors import RemovalProof
from headwater.streaming.spark_jobs.job_watch import BytesAccumulator

KEYS_ARROW = pa.schema([("location", pa.string()), ("size", pa.int64())])


class DeletePlan(msgspec.Struct, frozen=True, kw_only=True):
    files: WorkerFiles
    proof: RemovalProof
    batch_size: int
    files_per_second: float
    """For all workers together."""
    batches_per_second: float


class DeleteResult(msgspec.Struct, frozen=True):
    """The result of one share, as far as it got."""

    stats: PurgeStats
    stopped: str = ""
    """Why it stopped deleting."""
    is_superseded: bool = False
    """The whole run has ended, not only this root."""


def keeping_keys(files: WorkerFiles, root: str, run: str) -> Task:
    """Takes locations and sizes; yields the lists that hold them."""

    def kept(batches: Batches) -> Batches:
        keys = (row for batch in batches for row in rows_of(batch))
        written = keep_keys(files.storages(), root, run, keys, part=f"s{partition_number():05}")
        yield batch_of([(one,) for one in written], TEXT_ARROW)

    return kept


def deleting(plan: DeletePlan, results: BytesAccumulator) -> Task:
    """Takes lists. ⚠ Before each request the lease, the intent and the claim are read. A share that must not continue ends
    without an error, so that what it has done is counted."""

    def deleted(batches: Batches) -> Batches:
        storages_of_all = plan.files.operations()
        storages = storages_of_all.storages
        backend = open_backend(plan.files.store_url)
        clock, latest = SystemClock(), [PurgeStats()]

        def refs(location: str) -> Iterator[FileRef]:
            for key in keys_in(storages, location):
                name, size = (key, None) if isinstance(key, str) else key
                yield FileRef(name, kind_by_name(name), size)

        def tell(stats: PurgeStats) -> None:
            latest[0] = stats

        spec = PurgeSpec(
            batch_size=plan.batch_size,
            files_per_second=plan.files_per_second / plan.files.tasks,
            batches_per_second=plan.batches_per_second / plan.files.tasks,
            before_request=lambda: plan.proof.require(backend, storages, clock),
            on_batch=tell,
        )
        try:
            for location in (row[0] for batch in batches for row in rows_of(batch)):
                latest[0], stopped, is_superseded = PurgeStats(), "", False
                try:
                    latest[0] = storages_of_all.purge(refs(location), spec)
                except HeadwaterError as error:
                    stopped, is_superseded = error.message, isinstance(error, MaintenanceSuperseded)
                results.add(msgspec.msgpack.encode(DeleteResult(latest[0], stopped, is_superseded)))
                if stopped:
                    break
        finally:
            backend.close()
        yield batch_of([("",)], TEXT_ARROW)

    return deleted


def merged(results: Iterator[DeleteResult] | list[DeleteResult]) -> PurgeStats:
    total: dict[str, Any] = {name: 0 for name in PurgeStats.__struct_fields__ if name not in ("seconds", "failures")}
    failures = []
    seconds = 0.0
    for result in results:
        for name in total:
            total[name] += getattr(result.stats, name)
        failures += result.stats.failures
        seconds = max(seconds, result.stats.seconds)
    return PurgeStats(**total, seconds=seconds, failures=failures[:100])
