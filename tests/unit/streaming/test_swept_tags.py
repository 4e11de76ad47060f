"""A tag pins no history, but its state is one that must stay: expiring and sweeping what it was made of leaves it whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from headwater.embedded import CatalogHandle
from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.producer.commits.operations import Delete, Put
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.schemas.change import Kind
from headwater.streaming.expire.expire import Expiry
from headwater.streaming.expire.retention import parse_retention
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import DEV, HOUR, MAIN, TAG, Maintained, sweep_store
from tests.support.models.commit_harness import reachable_at, state_at


@pytest.fixture
def realm() -> Maintained:
    """A branch of 60 entries, cut down to two, and a tag at its tenth."""
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    made = Maintained(backend)
    for number in range(60):
        made.write(count=3)
        if number == 9:
            made.move_to(TAG, Kind.CREATE, made.logs[MAIN][-1])
    return made


def cut_and_sweep(realm: Maintained) -> None:
    realm.expire("*=2n")
    realm.clock.move(4 * HOUR)
    reachable = realm.reachable()
    assert not realm.sweep().failures
    assert realm.ids() == reachable
    realm.check_states()


def test_a_tag_whose_base_lies_below_the_branchs_floor_is_whole(realm: Maintained) -> None:
    cut_and_sweep(realm)
    assert realm.floor(MAIN) > 10, "the tag held the floor back"
    assert state_at(realm.cold().kernel, realm.logs[TAG][-1]) == realm.states[MAIN, 10] != realm.states[MAIN, 60]
    assert reachable_at(realm.cold().kernel, realm.logs[TAG][-1]) <= realm.ids()


def test_a_tag_outlives_its_branch_and_what_only_it_kept_goes_with_it(realm: Maintained) -> None:
    realm.move_to(MAIN, Kind.DELETE)
    realm.write(DEV)
    realm.move_to(MAIN, Kind.CREATE, realm.logs[DEV][-1])
    cut_and_sweep(realm)
    assert state_at(realm.cold().kernel, realm.logs[TAG][-1]) == realm.states[MAIN, 10]
    kept = reachable_at(realm.cold().kernel, realm.logs[TAG][0])
    for _ in range(2):
        realm.move_to(TAG, Kind.DELETE)
    cut_and_sweep(realm)
    assert not kept & realm.ids()


def test_a_branch_created_from_a_tag_after_its_history_expired_is_complete(realm: Maintained) -> None:
    cut_and_sweep(realm)
    realm.move_to(DEV, Kind.CREATE, realm.logs[TAG][-1])
    realm.write(DEV, 4)
    cut_and_sweep(realm)
    assert realm.states[DEV, 1] == realm.states[MAIN, 10]


# ── as a catalog's user sees it ─────────────────────────────────────────────────────────────────────────────


def tables_at(lake: CatalogHandle, at: str) -> dict[str, object]:
    return {".".join(entry.key): entry.value for entry in lake.snapshot(at)}


def test_a_catalogs_tag_is_read_branched_and_compared_after_its_history_is_gone(tmp_path: Path) -> None:
    clock, url = ManualClock(), f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True, clock=clock) as engine:
        lake = engine.ensure_realm().create_catalog("lake")
        main = lake.branch("main")
        main.commit([Put(("db",), Namespace()), Put(("db", "old"), IcebergTable("s3://1"))])
        main.commit([Put(("db", "kept"), IcebergTable("s3://2"))])
        lake.create_tag("v1")
        tagged = tables_at(lake, "v1")
        for number in range(40):
            clock.move(HOUR)
            main.commit([Put(("db", f"t{number}"), IcebergTable(f"s3://t{number}"))])
        main.commit([Delete(("db", "old"))])
        kernel = engine.realm().kernel
        assert Expiry(kernel, parse_retention("*=1n")).run().expired > 30
        clock.move(24 * HOUR)
        report, _ = sweep_store(engine.store, [kernel.realm])
        assert not report.failures and sum(it.purged for it in report.counts[kernel.realm].values()) > 10
    with headwater.open(url, clock=clock) as engine:  # nothing is cached
        lake = engine.realm().catalog("lake")
        assert tables_at(lake, "v1") == tagged and tagged.keys() == {"db", "db.old", "db.kept"}
        assert len(list(lake.diff("v1", "main"))) == 41
        lake.create_branch("again", "v1").commit([Put(("db", "new"), IcebergTable("s3://new"))])
        assert tables_at(lake, "again").keys() == {*tagged, "db.new"}
        lake.create_tag("v1-copy", "v1")
        assert tables_at(lake, "v1-copy") == tagged
