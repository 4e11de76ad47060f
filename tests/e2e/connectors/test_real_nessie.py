"""A real Nessie server is followed commit by commit, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fixtures.bridged_lakes import Destination, reconciled
from tests.support.fixtures.nessie_lake import NessieLake
from tests.support.servers.servers import nessie_url


@pytest.fixture
def lake() -> Iterator[NessieLake]:
    with nessie_url() as url:
        made = NessieLake(url)
        yield made
        made.close()


@pytest.fixture
def destination(lake: NessieLake, tmp_path: Path) -> Destination:
    made = Destination(tmp_path, "file:///")
    made.add_source("n", "nessie", lake.api, f"reference={lake.branch}")
    return made


def ids(destination: Destination) -> dict[tuple[str, ...], str]:
    return {tuple(one["key"][1:]): one["content_id"] for one in destination.json("snapshot")["entries"]}


def test_its_commits_arrive_once_in_order_with_renames_and_a_lost_hash_is_one_resync(
    lake: NessieLake, destination: Destination
) -> None:
    assert "followed commit by commit" in destination.run("connector", "validate", "n")
    assert reconciled(destination)["committed"] == 0, "an empty branch"
    lake.namespace("db")
    for name in ("orders", "items", "old"):
        lake.create("db", name)
    early = lake.head
    assert reconciled(destination)["committed"] == 4
    before = ids(destination)
    for value in ("1", "2", "3"):
        lake.update("db", "orders", value)
    lake.rename("db", "items", "lines")
    lake.drop("db", "old")
    lake.create("db", "old")
    counters = reconciled(destination)
    assert (counters["committed"], counters["renamed"], counters["gaps"]) == (6, 1, 0)
    seen = destination.observed("n")
    assert [one["headers"]["headwater.observed.version"] for one in seen] == [one["hash"] for one in lake.log()]
    assert [one["message"] for one in seen] == [one["message"] for one in lake.log()]
    assert {one["headers"]["headwater.observed.author"] for one in seen} == {"ada"}
    assert destination.state("n") == lake.state()
    assert ids(destination)[("db", "lines")] == before[("db", "items")]
    assert ids(destination)[("db", "old")] != before[("db", "old")], "another table of its name"

    lake.assign(early)
    lake.create("db", "late")
    counters = reconciled(destination)
    assert (counters["committed"], counters["gaps"]) == (1, 1)
    resync = destination.observed("n")[-1]
    assert "does not reach back" in resync["headers"]["headwater.observed.gap"]
    assert resync["headers"]["headwater.observed.version"] == lake.head
    assert destination.state("n") == lake.state()
    lake.update("db", "late", "1")
    assert reconciled(destination)["committed"] == 1
    assert reconciled(destination)["committed"] == 0
    assert destination.observed("n")[-1]["message"] == "update late to 1"
