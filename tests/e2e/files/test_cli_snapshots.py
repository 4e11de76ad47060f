"""`headwater maintain snapshots`: snapshots expire by commits on one branch, and the other branch stays whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from tests.support.fixtures.iceberg_lake import ROWS, IcebergLake, iceberg_lake
from tests.support.servers.feed_server import FeedServer, feed_server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    folder = tmp_path_factory.mktemp("snapshots")
    with feed_server(f"sqlite:///{folder}/lake.db") as server:
        with headwater.open(server.store_url) as engine:
            engine.realm().create_catalog("shop", storage_root=f"file://{folder}/warehouse")
        yield server


@pytest.fixture
def main(served: FeedServer) -> Iterator[IcebergLake]:
    with iceberg_lake(served.url, "shop") as lake:
        yield lake


def expire(server: FeedServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", "--store", server.store_url, "maintain", "snapshots", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_snapshots_of_one_branch_expire_in_the_feed_and_the_other_branch_reads_all(
    served: FeedServer, main: IcebergLake
) -> None:
    catalog = main.catalog()
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    for _ in range(4):
        table.append(ROWS)
    table.manage_snapshots().create_tag(table.metadata.snapshots[1].snapshot_id, "release").commit()
    kept_by_property = catalog.create_table("db.kept", ROWS.schema, properties={"gc.enabled": "false"})
    kept_by_property.append(ROWS)
    kept_by_property.append(ROWS)
    with headwater.open(served.store_url) as engine:
        engine.realm().catalog("shop").create_branch("dev")

    would = expire(served, "--catalog", "shop", "--branch", "main", "--keep", "*=0s+1n", "--dry-run", "--json")
    assert would.returncode == 0, would.stderr
    [row] = json.loads(would.stdout)["branches"]
    assert {one["table"]: one["expired"] for one in row["tables"]} == {"db.kept": 0, "db.t": 2}
    assert len(catalog.load_table("db.t").metadata.snapshots) == 4

    with headwater.open(served.store_url) as engine:
        head = engine.realm().catalog("shop").branch().snapshot().seq
    done = expire(served, "--catalog", "shop", "--branch", "main", "--keep", "*=0s+1n")
    assert done.returncode == 0, done.stderr
    assert "2 snapshots expired" in done.stdout
    assert "shop@main db.kept was skipped: its property gc.enabled is false" in done.stdout
    left = catalog.load_table("db.t")
    assert {one.snapshot_id for one in left.metadata.snapshots} == {
        table.refresh().refs()["release"].snapshot_id,
        left.current_snapshot().snapshot_id,  # type: ignore[union-attr]
    }
    assert left.scan().to_arrow().num_rows == 12

    with headwater.open(served.store_url) as engine:
        [change] = list(engine.realm().catalog("shop").branch().changes(after=head))
    assert (change.author, [op.key for op in change.operations]) == ("maintenance", [("db", "t")])
    assert "remove-snapshots" in json.dumps(change.headers)

    with iceberg_lake(served.url, "shop@dev") as dev:
        whole = dev.catalog().load_table("db.t")
        assert len(whole.metadata.snapshots) == 4
        for snapshot in whole.metadata.snapshots:
            assert whole.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0

    again = expire(served, "--catalog", "shop", "--branch", "main", "--keep", "*=0s+1n")
    assert "0 snapshots expired" in again.stdout


def test_by_default_young_snapshots_stay(served: FeedServer) -> None:
    done = expire(served, "--json")
    assert done.returncode == 0, done.stderr
    assert all(one["expired"] == 0 for row in json.loads(done.stdout)["branches"] for one in row["tables"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--keep", "*=soon"], "INVALID_INPUT"),
        (["--keep", ""], "INVALID_INPUT"),
        (["--catalog", "nowhere"], "CATALOG_NOT_FOUND"),
        (["--catalog", "shop", "--branch", "nowhere"], "REFERENCE_NOT_FOUND"),
    ],
)
def test_bad_input_changes_nothing(served: FeedServer, arguments: list[str], code: str) -> None:
    done = expire(served, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error {code}: "), done.stderr


def test_a_table_that_cannot_be_read_does_not_stop_the_others(served: FeedServer, main: IcebergLake) -> None:
    catalog = main.catalog()
    broken = catalog.create_table("db.broken", ROWS.schema)
    whole = catalog.create_table("db.whole", ROWS.schema)
    for table in (broken, whole):
        table.append(ROWS)
        table.append(ROWS)
    Path(broken.metadata_location.removeprefix("file://")).unlink()
    done = expire(served, "--catalog", "shop", "--branch", "main", "--keep", "*=0s+1n")
    assert done.returncode == 1
    assert "db.broken" in done.stderr
    assert len(catalog.load_table("db.whole").metadata.snapshots) == 1
