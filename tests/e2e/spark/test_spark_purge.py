"""Realms are purged by scans on Spark's workers as by threads. Without the run's lease nothing is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.persistence.clock import SystemClock
from headwater.persistence.realms.realm_purge import rows_of
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.rows import ObjectRow
from headwater.persistence.store import Store, open_store
from headwater.schemas.errors import MaintenanceSuperseded
from headwater.streaming.purge.purge import purge_all
from headwater.streaming.runs.runs import Runs
from headwater.streaming.spark_jobs.spark_purge import SparkScans
from tests.support.faults.scan_only import ScanOnly, purging
from tests.support.fixtures.cli_runs import headwater
from tests.support.models.realm_cases import realms_of, store_over, write_note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORGOTTEN = "nobody#0123456789abcdef"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def scanned(url: str) -> Iterator[Store]:
    with open_store(url, create=True), store_over(url, ScanOnly, SystemClock()) as store:
        yield store


def test_all_realms_and_forgotten_instances_go_by_scans_on_workers(spark: SparkSession, url: str, scanned: Store) -> None:
    backend = scanned.backend
    instances = purging(scanned, "a", "b")
    for instance in (*instances.values(), FORGOTTEN):
        backend.write_objects(instance, [ObjectRow(number, "content", 1, b"of a writer") for number in range(7, 1_500)])
    stays = realms_of(scanned).create("stays").instance
    realms_of(scanned).init("stays")
    write_note(scanned.kernel(stays), "principals", "key")
    kept = list(rows_of(backend, stays))
    with Runs(backend, scanned.clock).run("purge-realms") as run:
        done = purge_all(scanned, run, catalogs=False, scan=SparkScans(spark, url, run.lease.claim))
    found = {it.instance: it for it in done.realms}
    assert found.keys() == {*instances.values(), FORGOTTEN} and not any(it.failure for it in done.realms)
    assert found[FORGOTTEN].deleted == 1_493 and all((it.deleted or 0) >= 1_493 for it in done.realms)
    assert all(realms_of(scanned).get(name).status is RealmStatus.PURGED for name in instances)
    assert not any(list(rows_of(backend, it)) for it in found) and list(rows_of(backend, stays)) == kept


def test_a_worker_checks_the_lease_before_it_deletes(spark: SparkSession, url: str, scanned: Store) -> None:
    instance = purging(scanned, "a")["a"]
    rows = list(rows_of(scanned.backend, instance))
    runs = Runs(scanned.backend, scanned.clock)
    with pytest.raises(MaintenanceSuperseded), runs.run("purge-realms") as old, runs.run("sweep", supersede=old.record.id):
        SparkScans(spark, url, old.lease.claim)(scanned.backend, {instance}, lambda: None)  # the driver has not noticed yet
    assert list(rows_of(scanned.backend, instance)) == rows


def test_spark_is_refused_where_the_database_deletes_realms_by_itself(url: str) -> None:
    headwater("--store", url, "store", "create").succeeded()
    assert "--spark" in headwater("--store", url, "maintain", "purge-realms", "--spark").error
