"""The functions of a sweep that run on Spark's workers: scanning splits, and deleting rows.

Each function here makes one that travels. Counts are returned through an accumulator as each task ends, so that what was done
is known even if a later task fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.persistence.backends import open_backend
from headwater.persistence.rows import ScannedRow, Split, Table
from headwater.schemas.errors import HeadwaterError, MaintenanceRefused
from headwater.streaming.spark_jobs.job_watch import ResultsAccumulator
from headwater.streaming.sweep.sweep_task import (
    RateLimit,
    Removal,
    SplitResult,
    SplitSweep,
    SweepPlan,
    scan_failure,
    scanned_chunks,
)

SCANNED_DDL = "realm int, id bigint, type string, part int, created_at bigint, revision bigint"
SCANNED_ARROW = pa.schema(
    [
        ("realm", pa.int32()),
        ("id", pa.int64()),
        ("type", pa.string()),
        ("part", pa.int32()),
        ("created_at", pa.int64()),
        ("revision", pa.int64()),
    ]
)
RESULT_DDL = "shares int"

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Batches]


def sweeping(url: str, plan: SweepPlan, splits: Sequence[Split], broadcast: Any, results: ResultsAccumulator) -> Task:
    """Everything in one task, with a filter that every worker has."""

    def swept(batches: Batches) -> Batches:
        numbers = _numbers(batches)
        backend = open_backend(url)
        try:
            for number in numbers:
                task = SplitSweep(backend, plan, broadcast.value, on_rows=results.scanned)
                results.add(task.run(splits[number]))
        finally:
            backend.close()
        yield _told(len(numbers))

    return swept


def scanning(url: str, plan: SweepPlan, realms: Sequence[str], splits: Sequence[Split], results: ResultsAccumulator) -> Task:
    """Rows of the realms that are swept. A split that cannot be read is reported; the others continue."""
    number_of = {realm: number for number, realm in enumerate(realms)}

    def scanned(batches: Batches) -> Batches:
        backend = open_backend(url)
        limit = RateLimit(plan.rows_per_second)
        try:
            for number in _numbers(batches):
                try:
                    for chunk in scanned_chunks(backend, plan, splits[number]):
                        limit.wait(len(chunk))
                        results.scanned(len(chunk))
                        yield _scanned_batch(chunk, number_of)
                except MaintenanceRefused:
                    raise
                except HeadwaterError as error:
                    results.add(SplitResult(failures=[scan_failure(splits[number], error)]))
        finally:
            backend.close()

    return scanned


def deleting(url: str, plan: SweepPlan, realms: Sequence[str], results: ResultsAccumulator) -> Task:
    """Rows that were joined with the ids that must stay: each is counted, and deleted if that is allowed."""

    def deleted(batches: Batches) -> Batches:
        backend = open_backend(url)
        result = SplitResult()
        removal = Removal(backend, plan)
        try:
            for batch in batches:
                removal.remove(_doomed(batch, plan, realms, result), result)
        finally:
            backend.close()
        results.add(result)
        yield _told(1)

    return deleted


def _doomed(batch: pa.RecordBatch, plan: SweepPlan, realms: Sequence[str], result: SplitResult) -> list[ScannedRow]:
    doomed: list[ScannedRow] = []
    for number in pc.unique(batch.column("realm")).to_pylist():
        of_realm = batch.filter(pc.equal(batch.column("realm"), number))
        realm = realms[number]
        if realm in plan.purging:
            _count(result, realm, of_realm, "scanned")
            doomed += _rows(realm, of_realm)
            continue
        wanted = plan.realms[realm]
        purgeable = pc.is_in(of_realm.column("type"), pa.array(sorted(wanted.types), pa.string()))
        unreached = pc.and_(pc.is_null(of_realm.column("kept")), purgeable)
        old = pc.less(of_realm.column("created_at"), wanted.created_before)
        _count(result, realm, of_realm, "scanned")
        _count(result, realm, of_realm.filter(pc.invert(unreached)), "retained")
        _count(result, realm, of_realm.filter(pc.and_(unreached, pc.invert(old))), "newer")
        doomed += _rows(realm, of_realm.filter(pc.and_(unreached, old)))
    return doomed


def _count(result: SplitResult, realm: str, rows: pa.RecordBatch, what: str) -> None:
    for found in pc.value_counts(rows.column("type")).to_pylist():
        counts = result.of(realm, found["values"])
        setattr(counts, what, getattr(counts, what) + found["counts"])


def _rows(realm: str, batch: pa.RecordBatch) -> list[ScannedRow]:
    columns = [batch.column(name).to_pylist() for name in ("type", "id", "part", "created_at", "revision")]
    return [
        ScannedRow(Table.OBJECTS, realm, type, "", id, part, created_at, revision)
        for type, id, part, created_at, revision in zip(*columns, strict=True)
    ]


def _scanned_batch(rows: Sequence[ScannedRow], number_of: dict[str, int]) -> pa.RecordBatch:
    columns: list[list[Any]] = [
        [number_of[row.realm] for row in rows],
        [row.id for row in rows],
        [row.type for row in rows],
        [row.part for row in rows],
        [row.created_at for row in rows],
        [row.revision for row in rows],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCANNED_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCANNED_ARROW)


def _numbers(batches: Batches) -> list[int]:
    return [number for batch in batches for number in batch.column(0).to_pylist()]


def _told(shares: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([shares], pa.int32())], names=["shares"])
