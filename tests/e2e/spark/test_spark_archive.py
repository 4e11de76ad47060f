"""The archive holds each Change once, whatever came between; replayed, it is the state that the store has."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner

import headwater
from headwater.cli.main import headwater as command
from headwater.embedded import Headwater
from headwater.schemas.errors import ChainBroken, Conflict, CursorExpired, CursorReset, InvalidInput, ReferenceNotFound
from headwater.streaming.archive.archive import archive_log, reached_by
from headwater.streaming.archive.archive_targets import UNFINISHED_SECONDS, Decide, IcebergArchive, ParquetArchive
from headwater.streaming.archive.replay import Opener, ReplayRange, change_counts, lineage, states
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.sources.linked_batches import PointerBatch
from headwater.streaming.sources.log_offsets import LogOffset, OffsetPosition
from headwater.streaming.sources.open_stores import opened_store
from tests.support.fixtures.restorable_stores import SqliteStore
from tests.support.fixtures.spark_lakes import change_of_row, cut_history, fill, logged_changes, put_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAIN = "cat/1/heads/main"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[str, Headwater]]:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        fill(engine, tables=4)
        yield url, engine


def archived(target: ParquetArchive | IcebergArchive) -> list[Any]:
    return sorted((change_of_row(row) for row in target.changes().collect()), key=lambda change: (change.pointer, change.seq))


def replayed(rows: DataFrame) -> dict[str, dict[tuple[str, ...], Any]]:
    found: dict[str, dict[tuple[str, ...], Any]] = {}
    for row in rows.collect():
        found.setdefault(row.pointer, {})[tuple(row.key)] = (row.content_id, row.type, msgspec.json.decode(row.value))
    return found


def stored(engine: Headwater, at: str) -> dict[tuple[str, ...], Any]:
    snapshot = engine.realm().catalog("lake").snapshot(at)
    return {entry.key: (entry.content_id, entry.type, entry.value) for entry in snapshot}


def test_an_archive_is_the_log_and_replays_to_what_the_store_holds(
    spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path
) -> None:
    url, engine = lake
    target = ParquetArchive(spark, f"{tmp_path}/archive")
    archive_log(spark, target, store=url, changes_per_batch=20)
    kernel = engine.realm().kernel
    assert archived(target) == logged_changes(kernel)
    reader = RegisteredReaders(engine.store.backend, kernel.realm, engine.store.clock).list()[0]
    assert reader.positions == {pointer: at.seq for pointer, at in (target.position() or ARCHIVED).pointers.items()}

    # A crash between data and manifest, then more commits, then a run that knows nothing of the first.
    data = tmp_path / "archive" / "data"
    for name in ("9999999999-crashed", "9999999999-young"):
        spark.range(1).write.parquet(f"{data}/{name}")
    for file in (data / "9999999999-crashed").iterdir():
        os.utime(file, (time.time() - 2 * UNFINISHED_SECONDS,) * 2)
    before = [change for change in logged_changes(kernel) if change.pointer == MAIN][-1]
    put_tables(engine, "later")
    again = ParquetArchive(spark, f"{tmp_path}/archive")
    archive_log(spark, again, store=url)
    assert archived(again) == logged_changes(kernel)
    assert not (data / "9999999999-crashed").exists()
    assert (data / "9999999999-young").exists(), "its writer may only be slow"

    changes = again.changes().persist()
    now = replayed(states(changes))
    assert now == {f"cat/1/heads/{name}": stored(engine, name) for name in ("main", "dev")} | {
        "cat/1/tags/v1": stored(engine, "v1")
    }
    then = replayed(states(changes, at=before.time))
    assert then[MAIN] == stored(engine, before.commit_id) != now[MAIN]
    assert replayed(states(changes, commit=before.commit_id)) == {MAIN: stored(engine, before.commit_id)}
    with pytest.raises(ReferenceNotFound):
        states(changes, commit="0" * 64)

    counts = {(row.pointer, row.table, row.author): row.changes for row in change_counts(changes).collect()}
    assert counts[MAIN, "db.later", "ada"] == 1
    assert sum(counts.values()) == sum(len(change.operations) for change in logged_changes(kernel))


def test_an_archive_of_entries_lost_in_a_restore_is_not_continued_and_keeps_its_pin(
    spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path
) -> None:
    url, engine = lake
    target, store = ParquetArchive(spark, f"{tmp_path}/archive"), SqliteStore(tmp_path)
    archive_log(spark, target, store=url)
    store.back_up()
    kept = logged_changes(engine.realm().kernel)
    put_tables(engine, "lost")
    archive_log(spark, target, store=url)
    store.restore()
    opened_store(url).restores.check()  # once a second by itself
    with headwater.open(url) as fresh:
        with pytest.raises(CursorReset, match="the log has lost"):
            archive_log(spark, target, store=url)
        assert len(archived(target)) == len(kept) + 1, "it is left as it is"
        kernel = fresh.realm().kernel
        (reader,) = RegisteredReaders(fresh.store.backend, kernel.realm, fresh.store.clock).list()
        assert reader.positions[MAIN] == max(change.seq for change in kept if change.pointer == MAIN)
        another = ParquetArchive(spark, f"{tmp_path}/another")
        archive_log(spark, another, store=url, reader="another")
        assert archived(another) == logged_changes(kernel) == kept


def test_a_state_of_truncated_history_is_refused_and_never_partial(spark: SparkSession, lake: tuple[str, Headwater]) -> None:
    url, engine = lake
    first = min(change.time for change in logged_changes(engine.realm().kernel) if change.pointer == MAIN)
    cut_history(engine, MAIN)
    changes = spark.read.format("headwater").options(store=url).load()
    with pytest.raises(CursorExpired, match=MAIN):
        states(changes)
    with pytest.raises(CursorExpired, match=MAIN):  # it was there then: a state without it would be a part
        states(changes, at=first)


def test_an_iceberg_archive_gets_each_batch_once_although_its_writer_was_replaced(
    spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path
) -> None:
    url, engine = lake
    spark.conf.set("spark.sql.catalog.archive", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.archive.type", "hadoop")
    spark.conf.set("spark.sql.catalog.archive.warehouse", f"file://{tmp_path}/warehouse")
    target = IcebergArchive(spark, "archive.history.changes")
    archive_log(spark, target, store=url, changes_per_batch=30)
    put_tables(engine, "later")
    archive_log(spark, target, store=url)
    archive_log(spark, target, store=url)
    assert archived(target) == logged_changes(engine.realm().kernel)
    before = target.position()
    assert before is not None

    # One writer stalls behind its lease, while another one takes over and appends the same batch.
    put_tables(engine, "disputed")
    stalled = IcebergArchive(spark, "archive.history.changes")
    overtaken = functools.partial(archive_log, spark, target, store=url, reader="successor")
    with pytest.raises(Conflict, match="another process"):
        archive_log(spark, Stalling(stalled, overtaken), store=url, reader="stalled")
    spark.catalog.refreshTable("archive.history.changes")  # counted as it is, without dropping doubles
    assert spark.table("archive.history.changes").count() == len(logged_changes(engine.realm().kernel))
    assert archived(target) == logged_changes(engine.realm().kernel)

    # Snapshots that rewrite files and expire lose neither the position nor the next batch.
    reached = target.position()
    spark.sql("CALL archive.system.rewrite_data_files(table => 'history.changes', options => map('rewrite-all', 'true'))")
    spark.sql("CALL archive.system.expire_snapshots('history.changes', TIMESTAMP '2100-01-01 00:00:00', 1)")
    assert reached is not None and target.position() == reached
    put_tables(engine, "last")
    archive_log(spark, target, store=url)
    spark.catalog.refreshTable("archive.history.changes")
    assert spark.table("archive.history.changes").count() == len(logged_changes(engine.realm().kernel))


class Stalling(IcebergArchive):
    """Its lease is proven, and right behind that another writer does all that it was about to do."""

    def __init__(self, archive: IcebergArchive, meanwhile: Callable[[], object]) -> None:
        vars(self).update(vars(archive))
        self._meanwhile = meanwhile

    def append(self, changes: DataFrame, position: LogOffset, decide: Decide) -> None:
        def stall(decided: bytes) -> None:
            decide(decided)
            self._meanwhile()

        super().append(changes, position, stall)


ARCHIVED = LogOffset("r#1", {"p": OffsetPosition(5, "e5")})


def test_a_batch_moves_the_archive_only_without_a_gap() -> None:
    assert reached_by(ARCHIVED, [PointerBatch("r#1", "p", 6, 9, "e9", "e5")]).pointers == {"p": OffsetPosition(9, "e9")}
    assert reached_by(ARCHIVED, []) == ARCHIVED
    assert reached_by(ARCHIVED, [PointerBatch("r#1", "q", 1, 1, "f1", "")]).pointers["q"] == OffsetPosition(1, "f1")


@pytest.mark.parametrize(
    "batch",
    [
        PointerBatch("r#1", "p", 7, 9, "e9", "e6"),
        PointerBatch("r#1", "p", 6, 9, "e9", "e5", is_linked=False),
        PointerBatch("r#1", "p", 6, 9, "e9", "another 5"),
    ],
    ids=["a gap before it", "a gap in it", "another history"],
)
def test_a_batch_that_misses_an_entry_is_refused(batch: PointerBatch) -> None:
    with pytest.raises(ChainBroken):
        reached_by(ARCHIVED, [batch])


def test_a_lineage_goes_from_base_to_base_and_stops_where_a_segment_has_none() -> None:
    openers = {
        "main": [Opener(1)],
        "dev": [Opener(1, "main", 4), Opener(5, "main", 9), Opener(7), Opener(8, "side", 2)],
        "side": [Opener(1, "dev", 3)],
    }
    assert lineage("dev", 6, openers) == [ReplayRange(0, "dev", 5, 6), ReplayRange(1, "main", 1, 9)]
    assert lineage("dev", 7, openers) == [ReplayRange(0, "dev", 7, 7)]
    assert lineage("dev", 9, openers) == [
        ReplayRange(0, "dev", 8, 9),
        ReplayRange(1, "side", 1, 2),
        ReplayRange(2, "dev", 1, 3),
        ReplayRange(3, "main", 1, 4),
    ]
    assert lineage("other", 3, openers) == [ReplayRange(0, "other", 1, 3)]


def test_the_documented_commands_archive_and_replay(spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path) -> None:
    url, engine = lake
    run = functools.partial(CliRunner().invoke, command, standalone_mode=False)

    made = run(["--store", url, "maintain", "archive", f"{tmp_path}/archive", "--json"])
    assert made.exception is None, made.exception
    answer = json.loads(made.stdout)
    assert answer["archived"] == len(logged_changes(engine.realm().kernel))
    shown = run(["--store", url, "audit", "states", "--archive", f"{tmp_path}/archive", "--json"])
    keys = {tuple(row["key"]) for row in json.loads(shown.stdout) if row["pointer"] == MAIN}
    assert keys == set(stored(engine, "main"))
    refused = run(["--store", url, "audit", "states", "--archive", f"{tmp_path}/none"])
    assert isinstance(refused.exception, InvalidInput) and "no archive" in str(refused.exception)
    both = run(["--store", url, "audit", "states", "--at", "2026-01-01T00:00:00Z", "--counts"])
    assert isinstance(both.exception, InvalidInput)
    cut_history(engine, MAIN)
    late = json.loads(run(["--store", url, "maintain", "archive", f"{tmp_path}/late", "--json"]).stdout)
    left = spark.read.format("headwater").options(store=url).load().count()
    assert late["archived"] == left < answer["archived"]
