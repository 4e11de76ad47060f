"""`headwater maintain files` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from headwater import Delete, IcebergTable, Namespace, Put
from tests.support.fixtures.iceberg_files import memory_catalog, table_with_history


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def table_location(tmp_path: Path) -> str:
    with memory_catalog(f"file://{tmp_path}/warehouse") as catalog:
        return table_with_history(catalog, "orders").metadata_location


def test_files_of_a_table_are_shown_by_location_and_by_key(tmp_path: Path, table_location: str) -> None:
    store = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(store, create=True) as engine:
        main = engine.ensure_realm().ensure_catalog("lake").branch()
        main.commit([Put(("shop",), Namespace()), Put(("shop", "orders"), IcebergTable(table_location, snapshot_id=1))])
    by_location = run("maintain", "files", "identify", table_location, "--json")
    by_key = run("--store", store, "maintain", "files", "identify", "shop.orders", "--json")
    assert by_location.returncode == by_key.returncode == 0, by_location.stderr + by_key.stderr
    assert by_location.stdout == by_key.stdout
    found = run("maintain", "files", "find", f"{tmp_path}/warehouse", "--json")
    identified = {json.loads(line)["location"] for line in by_key.stdout.splitlines()}
    listed = {f"file://{json.loads(line)['location']}" for line in found.stdout.splitlines()}
    assert identified == listed
    table = run("maintain", "files", "identify", table_location, "--list")
    assert f"metadata  {table_location}" in table.stdout
    assert f"{len(identified)} files" in table.stdout


def test_lenient_reading_reports_what_it_could_not_read(tmp_path: Path, table_location: str) -> None:
    manifest = next(Path(f"{tmp_path}/warehouse").rglob("*-m0.avro"))
    manifest.write_bytes(b"damaged")
    strict = run("maintain", "files", "identify", table_location)
    assert (strict.returncode, strict.stdout) == (2, "")
    assert "MALFORMED_METADATA" in strict.stderr
    lenient = run("maintain", "files", "identify", table_location, "--lenient")
    assert lenient.returncode == 1
    assert manifest.name in lenient.stderr
    assert "manifest-list" in lenient.stdout


def test_verify_finds_files_that_a_retained_state_of_any_branch_misses(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/lake.db"
    warehouse = f"file://{tmp_path}/warehouse"
    with headwater.open(store, create=True) as engine, memory_catalog(warehouse) as catalog:
        lake = engine.ensure_realm().create_catalog("lake", storage_root=warehouse)
        lake.branch().commit([Put(("db",), Namespace())])
        table = table_with_history(catalog, "orders")
        lake.branch().commit([Put(("db", "orders"), IcebergTable(table.metadata_location, snapshot_id=1))])
        old = table.metadata_location
        dev = lake.create_branch("dev")
        other = table_with_history(catalog, "only_on_dev")
        dev.commit([Put(("db", "other"), IcebergTable(other.metadata_location, snapshot_id=1))])
        lake.create_tag("release", "dev")
        lake.branch().commit([Delete(("db", "orders"))])
        dev.delete()
    whole = run("--store", store, "maintain", "files", "check", "--json")
    assert whole.returncode == 0, whole.stderr
    [report] = json.loads(whole.stdout)["realms"]
    on_disk = [path for path in Path(f"{tmp_path}/warehouse").rglob("*") if path.is_file()]
    assert (report["contents"], report["listed"], report["looked_for"]) == (2, len(on_disk), 0)

    victims = [
        next(path for path in on_disk if path.suffix == ".parquet" and name in str(path)) for name in ("orders", "only_on")
    ]
    for victim in victims:
        victim.unlink()
    Path(old.removeprefix("file://")).write_text("damaged")
    damaged = run("--store", store, "maintain", "files", "check", "--json")
    assert damaged.returncode == 1
    [report] = json.loads(damaged.stdout)["realms"]
    assert (report["missing"], report["unreadable"]) == (1, 1), report  # what damaged metadata names is not known
    assert str(victims[1]) in damaged.stderr
    assert old in damaged.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["identify", "/nothing/x.metadata.json"], "FILE_MISSING"),
        (["identify", "shop.orders", "--kind", "table"], "INVALID_INPUT"),
        (["find", "hdfs://somewhere/x"], "LOCATION_FORBIDDEN"),
        (["find", "/tmp/../etc"], "LOCATION_FORBIDDEN"),
        (["find", "/tmp", "--older-than", "nan"], "USAGE"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], code: str) -> None:
    done = run("maintain", "files", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error {code}: ")
    assert len(done.stderr.splitlines()) == 1


def test_tasks_of_dropped_tables_are_shown_and_run(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(store, create=True) as engine:
        engine.ensure_realm().ensure_catalog("lake", storage_root=f"file://{tmp_path}/warehouse")
    shown = run("--store", store, "maintain", "files", "tasks")
    assert shown.returncode == 0 and "held by" in shown.stdout
    ran = run("--store", store, "maintain", "files", "tasks", "--run", "--json")
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"tasks": []})
    assert "files-purge" in run("--store", store, "maintain", "runs").stdout
    tasks = ("--store", store, "maintain", "files", "tasks", "--forget-history", "shop.orders")
    for refused, told in ((run(*tasks), "Add --run"), (run(*tasks, "--run"), "no table 'shop.orders' was dropped with PURGE")):
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.stderr
        assert told in refused.stderr and "--forget-history" in refused.stderr
