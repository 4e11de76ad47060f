"""A real Hive metastore is followed by its notification log, event by event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixtures.bridged_lakes import Destination, reconciled
from tests.support.fixtures.hive_lake import HiveLake, iceberg
from tests.support.servers.servers import hive_url

ORDERS, ITEMS = "9c12d441-03fe-4693-9a96-a0705ddf69c1", "2a2f0f27-1a5c-4d2b-9a0b-2b7a9f3c6f11"


@pytest.fixture
def lake() -> Iterator[HiveLake]:
    with hive_url() as url:
        made = HiveLake(url)
        yield made
        made.close()


@pytest.fixture
def destination(lake: HiveLake, tmp_path: Path) -> Destination:
    made = Destination(tmp_path, "file:///")
    made.add_source("h", "hive", lake.url)
    return made


def held(destination: Destination, lake: HiveLake) -> dict[str, dict[str, Any]]:
    """Tables of the lake's database, with their content ids."""
    entries = destination.json("snapshot")["entries"]
    return {one["key"][2]: one | one["value"] for one in entries if one["key"][1:2] == [lake.name] and len(one["key"]) == 3}


def test_its_events_are_commits_in_their_order_with_renames(lake: HiveLake, destination: Destination) -> None:
    assert "followed commit by commit" in destination.run("connector", "validate", "h")
    lake.create_database(owner="ada")
    lake.create("early", **iceberg(1))
    assert reconciled(destination)["gaps"] == 1, "how the metastore began is in no log"
    assert set(held(destination, lake)) == {"early"}
    lake.create("orders", **iceberg(1, ORDERS))
    lake.create("plain")
    for version in (2, 3):
        lake.alter("orders", "orders", **iceberg(version, ORDERS, snapshot=version))
    lake.create("items", **iceberg(7, ITEMS))
    before = held(destination, lake)
    lake.alter("items", "lines", **iceberg(7, ITEMS))
    lake.drop("early")
    lake.create("early", **iceberg(9))
    counters = reconciled(destination)
    assert (counters["committed"], counters["renamed"], counters["dropped"], counters["gaps"]) == (7, 1, 1, 0)
    commits = destination.observed("h")[-7:]
    numbers = [int(one["headers"]["headwater.observed.version"]) for one in commits]
    assert numbers == sorted(set(numbers)) and not [one for one in commits if "headwater.observed.gap" in one["headers"]]
    assert [one["message"].split()[0] for one in commits] == [
        "CREATE_TABLE", "ALTER_TABLE", "ALTER_TABLE", "CREATE_TABLE", "ALTER_TABLE", "DROP_TABLE", "CREATE_TABLE"
    ]  # fmt: skip
    now = held(destination, lake)
    assert set(now) == {"orders", "lines", "early"}, "a table of another format is none here"
    assert (now["orders"]["metadata_location"], now["orders"]["snapshot_id"]) == ("file:///tmp/t/3.metadata.json", 3)
    assert now["early"]["content_id"] != before["early"]["content_id"], "made again, it is another table"
    assert reconciled(destination)["committed"] == 0
    lake.drop_database()
    assert reconciled(destination)["dropped"] >= 1 and not held(destination, lake)
