"""A folder of Delta tables, written by the deltalake library, is followed version by version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.producer.connectors.source_spi import ConnectorSpec, Missing, Observation, Same
from headwater.schemas.errors import MalformedMetadata, Unsupported
from headwater.service.reconciling.sources.delta_source import DeltaSource
from headwater.streaming.files.stores.storages import Storages
from tests.support.fixtures.bridged_lakes import Destination

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def append(folder: Path, times: int = 1) -> None:
    for _ in range(times):
        write_deltalake(str(folder), ROWS, mode="append")


def bridged(tmp_path: Path) -> tuple[Path, Destination]:
    lake = tmp_path / "lake"
    append(lake / "shop" / "orders", 2)
    append(lake / "shop" / "items")
    destination = Destination(tmp_path, f"file://{tmp_path}")
    where = ("--source", "delta", "--uri", f"file://{lake}", "--root", f"file://{lake}/", "--path", "delta")
    destination.run("connector", "add", "d", *where)
    assert reconciled(destination)["committed"] > 0
    return lake, destination


def reconciled(destination: Destination) -> dict[str, Any]:
    (job,) = destination.json("reconcile", "--once")["jobs"]
    assert (job["state"], job["failures"]) == ("SUCCEEDED", []), job
    counters: dict[str, Any] = job["counters"]
    return counters


def held(destination: Destination) -> dict[str, str]:
    """Of each table the commit that it stands at."""
    entries = destination.json("snapshot")["entries"]
    return {
        ".".join(one["key"]): one["value"]["metadata_location_history"][0].rpartition("/")[2][:20].lstrip("0") or "0"
        for one in entries
        if one["type"] == "DELTA_TABLE"
    }


def versions(destination: Destination, table: str) -> list[str]:
    """As they were committed here."""
    puts = [one for change in destination.observed("d") for one in change["operations"] if one["op"] == "put"]
    return [
        one["after"]["metadata_location_history"][0].rpartition("/")[2]
        for one in puts
        if one["key"] == ["delta", "shop", table]
    ]


def test_every_version_between_two_polls_is_one_commit_in_order(tmp_path: Path) -> None:
    lake, destination = bridged(tmp_path)
    assert held(destination) == {"delta.shop.orders": "1", "delta.shop.items": "0"}
    append(lake / "shop" / "orders", 3)
    append(lake / "late" / "new", 2)
    assert reconciled(destination)["committed"] == 3 + 2 + 1, "three versions, two of a new table, its namespace"
    assert versions(destination, "orders") == [f"{one:020d}.json" for one in (1, 2, 3, 4)]
    assert held(destination) == {"delta.shop.orders": "4", "delta.shop.items": "0", "delta.late.new": "1"}
    assert not [one for one in destination.observed("d") if "headwater.observed.gap" in one["headers"]]
    assert reconciled(destination)["committed"] == 0


def test_drops_recreated_tables_and_moved_folders_are_recognized(tmp_path: Path) -> None:
    lake, destination = bridged(tmp_path)
    before = {one["key"][-1]: one["content_id"] for one in destination.json("snapshot")["entries"]}
    shutil.rmtree(lake / "shop" / "orders")
    append(lake / "shop" / "orders")
    (lake / "shop" / "items").rename(lake / "shop" / "lines")
    counters = reconciled(destination)
    assert (counters["dropped"], counters["renamed"]) == (1, 1)
    after = {one["key"][-1]: one["content_id"] for one in destination.json("snapshot")["entries"]}
    assert after["lines"] == before["items"]
    assert after["orders"] != before["orders"], "another table of its name"
    shutil.rmtree(lake / "shop" / "lines")
    assert reconciled(destination)["dropped"] == 1
    assert held(destination) == {"delta.shop.orders": "0"}


def test_a_log_that_was_cleaned_up_meanwhile_is_a_typed_gap(tmp_path: Path) -> None:
    lake, destination = bridged(tmp_path)
    orders = lake / "shop" / "orders"
    append(orders, 4)
    DeltaTable(str(orders)).create_checkpoint()
    append(orders)
    for version in range(4):
        (orders / "_delta_log" / f"{version:020d}.json").unlink()
    assert reconciled(destination)["gaps"] == 1
    assert held(destination)["delta.shop.orders"] == "6"
    (newest,) = [one for one in destination.observed("d") if "headwater.observed.gap" in one["headers"]]
    value = newest["operations"][0]["after"]
    assert [one.rpartition("/")[2] for one in value["metadata_location_history"]] == [f"{6:020d}.json"]
    assert [one.rpartition("/")[2] for one in value["checkpoint_location_history"]] == [f"{5:020d}.checkpoint.parquet"]


def test_storage_that_is_away_drops_nothing(tmp_path: Path) -> None:
    lake, destination = bridged(tmp_path)
    lake.rename(tmp_path / "unmounted")
    destination.run("reconcile", "--once", exit_code=1)
    assert destination.json("connector", "jobs", "d")["jobs"][0]["error"].startswith("SOURCE_UNREACHABLE")
    assert held(destination) == {"delta.shop.orders": "1", "delta.shop.items": "0"}


def source(lake: Path, **properties: str) -> DeltaSource:
    spec = ConnectorSpec(source="delta", uri=f"file://{lake}", roots=(f"file://{lake}",), properties=properties)
    return DeltaSource(Storages(), spec)


def observed(found: object) -> Observation:
    assert isinstance(found, Observation)
    return found


def test_an_unchanged_table_is_known_by_its_newest_commit(tmp_path: Path) -> None:
    table = tmp_path / "shop" / "orders"
    append(table, 2)
    first = observed(source(tmp_path).observe(("shop", "orders"), ""))
    assert isinstance(source(tmp_path).observe(("shop", "orders"), first.tag), Same)
    append(table)
    second = observed(source(tmp_path).observe(("shop", "orders"), first.tag))
    assert (len(second.steps), second.id) == (3, first.id)
    shutil.rmtree(table)
    assert isinstance(source(tmp_path).observe(("shop", "orders"), second.tag), Missing)
    append(table, 3)
    third = observed(source(tmp_path).observe(("shop", "orders"), second.tag))
    assert third.id != first.id, "the same number of versions, of another table"


def test_the_id_is_found_in_a_checkpoint(tmp_path: Path) -> None:
    table = tmp_path / "shop" / "orders"
    append(table, 2)
    id = observed(source(tmp_path).observe(("shop", "orders"), "")).id
    DeltaTable(str(table)).create_checkpoint()
    append(table)
    (table / "_delta_log" / f"{0:020d}.json").unlink()
    assert observed(source(tmp_path).observe(("shop", "orders"), "")).id == id


@pytest.mark.parametrize("damage", ["hole", "nonsense", "empty"])
def test_a_damaged_log_is_an_error_and_not_an_older_version(tmp_path: Path, damage: str) -> None:
    table = tmp_path / "shop" / "orders"
    append(table, 3)
    log = table / "_delta_log"
    if damage == "hole":
        (log / f"{1:020d}.json").unlink()
    else:
        (log / f"{0:020d}.json").write_bytes(b"\xff{" if damage == "nonsense" else b"")
    with pytest.raises(MalformedMetadata):
        source(tmp_path).observe(("shop", "orders"), "")


def commit(table: Path, version: int, *actions: dict[str, Any]) -> None:
    (table / "_delta_log" / f"{version:020d}.json").write_text("\n".join(json.dumps(one) for one in actions))


def test_a_protocol_that_cannot_be_read_is_found_however_old_it_is(tmp_path: Path) -> None:
    table = tmp_path / "shop" / "orders"
    append(table, 2)
    first = observed(source(tmp_path).observe(("shop", "orders"), ""))
    metadata = {"metaData": {"id": first.id}}
    commit(table, 2, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"]}})
    commit(table, 3, metadata)
    for seen in ("", first.tag):
        with pytest.raises(Unsupported, match="catalogManaged"):
            source(tmp_path).observe(("shop", "orders"), seen)
    commit(table, 4, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    assert observed(source(tmp_path).observe(("shop", "orders"), first.tag)).id == first.id, "it can be read again"


def test_a_table_that_cannot_be_read_any_more_stays_as_it_was(tmp_path: Path) -> None:
    lake, destination = bridged(tmp_path)
    before = held(destination)
    commit(lake / "shop" / "orders", 2, {"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}})
    (job,) = destination.json("reconcile", "--once")["jobs"]
    assert [(one["key"], one["code"]) for one in job["failures"]] == [(["shop", "orders"], "UNSUPPORTED")]
    assert held(destination) == before


def test_folders_down_to_the_depth_are_namespaces(tmp_path: Path) -> None:
    append(tmp_path / "eu" / "shop" / "orders")
    append(tmp_path / "eu" / "flat")
    (tmp_path / "eu" / "raw").mkdir()
    (tmp_path / "_hidden").mkdir()
    flat, deep = source(tmp_path), source(tmp_path, depth="3")
    assert [one.key for one in flat.namespaces()] == [("eu",)]
    assert list(flat.tables(("eu",))) == [("eu", "flat")]
    assert [one.key for one in deep.namespaces()] == [("eu",), ("eu", "raw"), ("eu", "shop")]
    assert list(deep.tables(("eu", "shop"))) == [("eu", "shop", "orders")]


def test_bad_specs_are_refused(tmp_path: Path) -> None:
    destination = Destination(tmp_path, f"file://{tmp_path}/lake")
    base = ("connector", "add", "d", "--source", "delta", "--path", "d")
    root = ("--root", f"file://{tmp_path}/lake/")
    refused = [
        ("LOCATION_FORBIDDEN", (*base, *root, "--uri", f"file://{tmp_path}/other")),
        ("LOCATION_FORBIDDEN", (*base, *root, "--uri", f"file://{tmp_path}/lake/../other")),
        ("LOCATION_FORBIDDEN", (*base, "--root", "file:///etc/", "--uri", "file:///etc/")),
        ("depth", (*base, *root, "--uri", f"file://{tmp_path}/lake", "--property", "depth=0")),
        ("colour", (*base, *root, "--uri", f"file://{tmp_path}/lake", "--property", "colour=red")),
        ("secret_ref", (*base, *root, "--uri", f"file://{tmp_path}/lake", "--secret-ref", "token")),
    ]
    for expected, arguments in refused:
        assert expected in destination.run(*arguments, exit_code=2)
    assert destination.json("connector", "list")["connectors"] == []
