"""The driver of an archive is killed: afterwards it holds each Change once, and never do two processes write one archive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headwater
from headwater.embedded import Headwater
from headwater.persistence.coordination.work_leases import HeldLease, WorkLeases
from headwater.schemas.errors import MaintenanceRunning, MaintenanceSuperseded
from headwater.streaming.archive.archive import archive_log, lease_key
from headwater.streaming.archive.archive_targets import ParquetArchive
from headwater.streaming.expire.readers import RegisteredReaders
from tests.support.fixtures.spark_lakes import change_of_row, fill, logged_changes, put_tables
from tests.support.processes.archive_process import LEASE_SECONDS, run_and_be_killed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[str, Headwater]]:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        fill(engine, tables=3)
        yield url, engine


def archived(target: ParquetArchive) -> list[Any]:
    return sorted((change_of_row(row) for row in target.changes().collect()), key=lambda change: (change.pointer, change.seq))


@pytest.mark.timeout(600)  # two JVMs start
def test_an_archive_whose_driver_was_killed_between_files_and_manifest_holds_each_change_once(
    spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path
) -> None:
    url, engine = lake
    folder = tmp_path / "archive"
    run_and_be_killed(url, str(folder))
    target = ParquetArchive(spark, str(folder))
    half = archived(target)
    assert 0 < len(half) < len(logged_changes(engine.realm().kernel))
    assert len(list((folder / "data").iterdir())) == 2, "files of a batch that never became whole"
    put_tables(engine, "after-the-kill")
    time.sleep(LEASE_SECONDS)  # the dead one's lease ends by itself
    archive_log(spark, target, store=url)
    assert archived(ParquetArchive(spark, str(folder))) == logged_changes(engine.realm().kernel)


def test_a_second_archive_at_once_is_refused_and_touches_nothing(
    spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path
) -> None:
    url, engine = lake
    folder = tmp_path / "archive"
    stray = folder / "data" / "0000000001-of-the-first"
    stray.mkdir(parents=True)
    leases = WorkLeases(engine.store.backend, engine.store.clock)
    key = lease_key(engine.realm().kernel.realm, "archive")
    first = leases.take(key, "first", leases.look(key))
    assert first is not None
    target = ParquetArchive(spark, str(folder))
    with pytest.raises(MaintenanceRunning, match="another process is writing the archive"):
        archive_log(spark, target, store=url)
    assert stray.exists() and target.position() is None
    first.release()
    archive_log(spark, target, store=url)
    assert archived(target) == logged_changes(engine.realm().kernel)


def test_an_archive_that_slept_past_its_lease_writes_nothing_more(
    spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path
) -> None:
    url, engine = lake
    leases = WorkLeases(engine.store.backend, engine.store.clock)
    key = lease_key(engine.realm().kernel.realm, "archive")
    target = ParquetArchive(spark, str(tmp_path / "archive"))
    position = target.position
    taken: list[HeldLease | None] = []

    def taken_over() -> Any:
        if not taken:  # as if this process had slept for longer than its lease
            taken.append(leases.take(key, "another", leases.look(key)))
        return position()

    target.position = taken_over  # type: ignore[method-assign]
    with pytest.raises(MaintenanceSuperseded):
        archive_log(spark, target, store=url)
    assert taken[0] is not None
    assert ParquetArchive(spark, str(tmp_path / "archive")).position() is None


@pytest.mark.timeout(600)  # two archives
@pytest.mark.parametrize("moment", ["files and decision", "decision and manifest", "manifest and pin"])
def test_an_archive_that_is_taken_over_between_two_of_its_writes_names_every_file_and_no_other(
    spark: SparkSession, lake: tuple[str, Headwater], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The successor archives all there is, and takes files that no manifest names for those of a crash."""
    url, engine = lake
    kernel, path = engine.realm().kernel, str(tmp_path / "archive")
    target = ParquetArchive(spark, path)
    successors: list[ParquetArchive] = []

    def taken_over() -> None:
        if successors:
            return
        successors.append(ParquetArchive(spark, path))
        leases = WorkLeases(engine.store.backend, engine.store.clock)
        key = lease_key(kernel.realm, "archive")
        forced = leases.take(key, "operator", leases.look(key))
        assert forced is not None
        forced.release()
        put_tables(engine, "behind-the-sleeper")
        archive_log(spark, successors[0], store=url)
        successors[0].remove_unfinished(seconds=0)

    def before(what: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            taken_over()
            return what(*arguments, **named)

        return call

    if moment == "files and decision":
        monkeypatch.setattr(HeldLease, "decide", before(HeldLease.decide))
    elif moment == "decision and manifest":
        target._files.write_new = before(target._files.write_new)  # type: ignore[method-assign]
    else:
        append = target.append

        def then_taken_over(*arguments: Any) -> None:
            append(*arguments)
            taken_over()

        target.append = then_taken_over  # type: ignore[method-assign]
    with pytest.raises(MaintenanceSuperseded):
        archive_log(spark, target, store=url)
    assert successors, "nobody took over"
    left = ParquetArchive(spark, path)
    assert archived(left) == logged_changes(kernel)
    position = left.position()
    assert position is not None
    (reader,) = RegisteredReaders(engine.store.backend, kernel.realm, engine.store.clock).list()
    assert reader.positions == {name: at.seq for name, at in position.pointers.items()}
    if moment == "files and decision":
        assert left.position() == successors[0].position()
