"""`headwater maintain files undo`: deleted files come back in a versioned bucket, and elsewhere it says that they cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import headwater
from headwater import IcebergTable, Namespace, Put
from headwater.persistence.clock import MICROS
from headwater.schemas.errors import InvalidInput, MaintenanceRefused, StoreUnavailable
from headwater.streaming.files.deleted_keys import KEPT_SECONDS, drop_old_records, keep_keys, kept_keys
from headwater.streaming.files.sweep.condemned_files import LIST_NAME
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.files.undo_run import UndoReport, UndoRun
from headwater.streaming.runs.runs import RunRecord, Runs
from tests.support.fixtures.iceberg_files import memory_catalog, table_with_history
from tests.support.fixtures.swept_lake import SweptLake, swept_lake
from tests.support.servers.moto_server import BUCKET, MotoServer, moto_server

VERSIONED = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_server() as server:
        httpx.put(f"{server.url}/{BUCKET}?versioning", content=VERSIONED).raise_for_status()
        httpx.put(f"{server.url}/plain").raise_for_status()
        yield server


def last_run(lake: SweptLake) -> RunRecord:
    return Runs(lake.store.backend, lake.store.clock, lease_key=FILES_LEASE).list()[0]


def undo(lake: SweptLake, run_id: str, options: dict[str, str], *, dry_run: bool = False) -> UndoReport:
    runs = Runs(lake.store.backend, lake.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
    with runs.run("files-undo", dry_run=dry_run) as run:
        [report] = UndoRun(lake.store, lake.operations, options, dry_run=dry_run).run(
            run, run_id, roots_of(lake.store, [lake.realm])
        )
    return report


def test_undone_deletions_are_restored_and_stay_for_two_more_runs(moto: MotoServer, tmp_path: Path) -> None:
    with swept_lake(tmp_path, f"s3://{BUCKET}/warehouse", moto.options) as lake:
        orphan = lake.table("orphan", 2)
        gone = lake.needed(orphan.metadata_location)
        lake.sweep_twice()
        assert not lake.files()
        swept = last_run(lake).id
        would = undo(lake, swept, moto.options, dry_run=True)
        assert (would.restored, would.lost) == (len(gone), 0) and not lake.files()
        done = undo(lake, swept, moto.options)
        assert (done.named, done.restored, done.there, done.lost) == (len(gone), len(gone), 0, 0) and lake.files() == gone
        assert orphan.scan().to_arrow().num_rows > 0
        again = undo(lake, swept, moto.options)
        assert (again.restored, again.there) == (0, len(gone))
        lake.sweep()
        assert lake.files() == gone, "the earlier sweep must not count as a first look"
        lake.sweep()
        assert not lake.files()


def test_undo_reports_lost_files_of_an_unversioned_bucket_and_a_disk(moto: MotoServer, tmp_path: Path) -> None:
    for folder, root, options, why in (
        ("s3", "s3://plain/warehouse", moto.options, "the bucket has no older version"),
        ("disk", None, {}, "from a backup"),
    ):
        with swept_lake(tmp_path / folder, root, options) as lake:
            gone = lake.needed(lake.table("orphan").metadata_location)
            lake.sweep_twice()
            report = undo(lake, last_run(lake).id, options)
            assert (report.restored, report.lost) == (0, len(gone)) and why in report.reason and set(report.sample) <= gone


def test_a_run_that_deleted_nothing_and_a_root_of_another_store_are_refused(moto: MotoServer, tmp_path: Path) -> None:
    with swept_lake(tmp_path, f"s3://{BUCKET}/refused", moto.options) as lake:
        lake.table("orphan")
        lake.sweep()
        for run_id in (last_run(lake).id, "../x", "*"):
            with pytest.raises(InvalidInput):
                undo(lake, run_id, moto.options)
        lake.sweep()
        swept = last_run(lake).id
        claim = f"{lake.root}/_headwater/root.json"
        lake.operations.storages.of(claim).write(claim, b"{}")
        with pytest.raises(MaintenanceRefused, match="is claimed by"):
            undo(lake, swept, moto.options)
        assert not lake.files()


def test_undo_reports_storage_that_does_not_answer(moto: MotoServer, tmp_path: Path) -> None:
    with swept_lake(tmp_path, f"s3://{BUCKET}/denied", moto.options) as lake:
        lake.table("orphan")
        lake.sweep_twice()
        with pytest.raises(StoreUnavailable, match="EndpointConnectionError"):
            undo(lake, last_run(lake).id, {**moto.options, "s3.endpoint": "http://127.0.0.1:9"})


def test_keys_are_kept_for_thirty_days_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.streaming.files.deleted_keys.KEYS_PER_PART", 3)
    with swept_lake(tmp_path) as lake:
        keys = [f"{lake.root}/{number}\n.parquet" for number in range(7)]
        root = f"{lake.root}/"
        keep_keys(lake.operations.storages, root, "run-1", keys)
        keep_keys(lake.operations.storages, root, "run-10", ["of another run"])
        assert list(kept_keys(lake.operations, root, "run-1")) == keys
        now = lake.store.clock.now_micros()
        drop_old_records(lake.operations, root, LIST_NAME, now + (KEPT_SECONDS - 3_600) * MICROS)
        assert list(kept_keys(lake.operations, root, "run-1")) == keys
        drop_old_records(lake.operations, root, LIST_NAME, now + (KEPT_SECONDS + 3_600) * MICROS)
        assert not list(kept_keys(lake.operations, root, "run-1"))


def test_the_command_undoes_a_purge(moto: MotoServer, tmp_path: Path) -> None:
    root = f"s3://{BUCKET}/typed"
    options = " ".join(f"{name}={value}" for name, value in moto.options.items())
    typed = [
        sys.executable,
        "-m",
        "headwater",
        "--store",
        f"sqlite:///{tmp_path}/lake.db",
        "--set",
        f"storage_options={options}",
    ]
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine, memory_catalog(root, **moto.options) as writer:
        main = engine.ensure_realm().create_catalog("lake", storage_root=root).branch()
        kept, dropped = (table_with_history(writer, name).metadata_location for name in ("kept", "dropped"))
        main.commit([Put(("db",), Namespace()), Put(("db", "kept"), IcebergTable(kept))])

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*typed, "maintain", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert run("files", "claim").returncode == 0
    purged = json.loads(run("files", "purge", "--metadata", dropped, "--json").stdout)["roots"][0]["purge"]["purged"]
    [newest] = [one for one in json.loads(run("runs", "--json").stdout)["runs"] if one["operation"] == "files-purge"]
    undone = run("files", "undo", newest["id"], "--json")
    assert undone.returncode == 0, undone.stderr
    assert json.loads(undone.stdout)["roots"][0]["restored"] == purged > 10
    assert run("files", "identify", dropped).returncode == 0
    assert run("files", "undo", "nothing").returncode == 2
