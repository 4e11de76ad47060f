"""What belongs to a connector reaches its branch by no merge, transplant or move of references."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from headwater.embedded import CatalogHandle, RealmHandle, open_embedded
from headwater.persistence.log.log_entry import Content
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta
from headwater.producer.commits.operations import Delete, Put
from headwater.producer.connectors.connector_records import Connector, Connectors
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.connectors.source_spi import AnySource, ConnectorSpec
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.three_way import KeyRule
from headwater.schemas.errors import Conflict, DestinationOwned, LocationForbidden
from tests.support.faults.manual_clock import ManualClock

META = WriteMeta("tests")
SPEC = ConnectorSpec(source="any", uri="any://", roots=("s3://lake/",))


class AnyFactory:
    def check_spec(self, spec: ConnectorSpec) -> None: ...

    def open(self, spec: ConnectorSpec, secret: bytes) -> AnySource:
        raise NotImplementedError


def connectors(kernel: RealmKernel) -> Connectors:
    return Connectors(kernel, {"any": AnyFactory()})


def table(name: str) -> IcebergTable:
    return IcebergTable(metadata_location=f"s3://lake/{name}.json")


@pytest.fixture
def realm() -> Iterator[RealmHandle]:
    with open_embedded("memory://", create=True) as engine:
        yield engine.ensure_realm()


@pytest.fixture
def lake(realm: RealmHandle) -> CatalogHandle:
    """`before` was branched and written to before the connector came."""
    made = realm.create_catalog("lake")
    made.branch("main").commit([Put(("free",), Namespace())])
    made.create_branch("before")
    made.branch("before").commit([Put(("owned",), Namespace()), Put(("owned", "t"), table("old"))])
    connectors(realm.kernel).create("up", SPEC, catalog="lake", path=("owned",), meta=META)
    return made


def observe(realm: RealmHandle, name: str) -> None:
    connector = connectors(realm.kernel).get("up")
    operations = [Put(("owned",), Namespace()), Put(("owned", name), table(name))]
    DestinationBranch(realm.kernel, connector).commit(operations, Seen(version=name), name)


REFUSED: dict[str, Callable[[CatalogHandle], object]] = {
    "put": lambda lake: lake.branch("main").commit([Put(("owned",), Namespace()), Put(("owned", "x"), table("x"))]),
    "put of the destination itself": lambda lake: lake.branch("main").commit([Put(("owned",), Namespace())]),
    "put on another branch": lambda lake: lake.branch("before").commit([Put(("owned", "x"), table("x"))]),
    "delete on another branch": lambda lake: lake.branch("before").commit([Delete(("owned", "t"))]),
    "merge": lambda lake: lake.merge("before", "main"),
    "transplant": lambda lake: lake.transplant([lake.branch("before").snapshot().commit_id], "main"),
    "assign": lambda lake: lake.branch("main").assign("before"),
    "drop of the catalog": lambda lake: lake.realm.drop_catalog("lake"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_but_the_connector_writes_below_its_destination(realm: RealmHandle, lake: CatalogHandle, name: str) -> None:
    before = lake.branch("main").snapshot().commit_id, lake.branch("before").snapshot().commit_id
    with pytest.raises(DestinationOwned) as refused:
        REFUSED[name](lake)
    assert refused.value.facts == {"connector": "up"}
    assert (lake.branch("main").snapshot().commit_id, lake.branch("before").snapshot().commit_id) == before
    connectors(realm.kernel).delete("up", meta=META)
    REFUSED[name](lake)


def test_the_branch_that_a_connector_commits_to_is_not_deleted(realm: RealmHandle, lake: CatalogHandle) -> None:
    connectors(realm.kernel).create("side", SPEC, catalog="lake", branch="before", path=("side",), meta=META)
    with pytest.raises(DestinationOwned):
        lake.branch("before").delete()
    connectors(realm.kernel).delete("side", meta=META)
    lake.branch("before").delete()


def test_what_a_connector_has_committed_is_merged_into_other_branches(realm: RealmHandle, lake: CatalogHandle) -> None:
    observe(realm, "t1")
    lake.create_branch("dev")
    lake.branch("dev").commit([Put(("free", "mine"), table("mine"))])
    observe(realm, "t2")
    lake.merge("main", "dev")
    assert {one.key for one in lake.branch("dev").snapshot()} >= {("owned", "t1"), ("owned", "t2")}
    lake.merge("dev", "main")
    assert lake.branch("main").snapshot().get(("free", "mine"))


def test_a_merge_into_another_branch_does_not_make_up_what_a_connector_owns(realm: RealmHandle, lake: CatalogHandle) -> None:
    lake.create_branch("clean")
    observe(realm, "t")
    there = lake.branch("main").snapshot().get(("owned", "t"))
    assert there is not None
    made_up = Content(uuid.UUID(there.content_id).bytes, "ICEBERG_TABLE", {"metadata_location": "s3://lake/mine.json"})
    rules = MergeRules(by_key={("owned", "t"): KeyRule(resolved=made_up)})
    with pytest.raises(DestinationOwned):
        lake.merge("main", "clean", rules=rules)


@pytest.mark.parametrize(
    ("root", "is_refused"),
    [
        ("s3://theirs/lake/", True),
        ("s3a://theirs//lake/db", True),
        ("s3://theirs/", True),
        ("/theirs/lake/", True),
        ("file:/theirs/", True),
        ("s3://ours/lake", True),
        ("s3://ours/lake/db/", True),
        ("s3://ours/", False),
        ("s3://ours/lakes/", False),
        ("s3://theirs/lake2/", False),
    ],
)
def test_a_sources_files_lie_in_no_warehouse(root: str, is_refused: bool) -> None:
    """⚠ They are read with the server's rights, and what lies in a warehouse and is not used is deleted."""
    with open_embedded("memory://", create=True) as engine:
        theirs = engine.ensure_realm("them")
        theirs.create_catalog("lake", storage_root="s3://theirs/lake")
        theirs.create_catalog("local", storage_root="file:///theirs/lake")
        realm = engine.ensure_realm("us")
        realm.create_catalog("lake", storage_root="s3://ours/lake")
        spec = ConnectorSpec(source="any", uri="any://", roots=(root,))
        if is_refused:
            with pytest.raises(LocationForbidden) as refused:
                connectors(realm.kernel).create("up", spec, catalog="lake", path=("up",), meta=META)
            assert refused.value.field == "roots"
            assert connectors(realm.kernel).list() == []
        else:
            connectors(realm.kernel).create("up", spec, catalog="lake", path=("up",), meta=META)


def test_two_destinations_of_one_catalog_do_not_overlap(realm: RealmHandle, lake: CatalogHandle) -> None:
    for path in ((), ("owned",), ("owned", "below")):
        with pytest.raises(Conflict, match="'up'"):
            connectors(realm.kernel).create("second", SPEC, catalog="lake", path=path, meta=META)
    connectors(realm.kernel).create("second", SPEC, catalog="lake", path=("ownedbeside",), meta=META)


def test_another_process_refuses_within_a_second(tmp_path_factory: pytest.TempPathFactory) -> None:
    url, clock = f"sqlite:///{tmp_path_factory.mktemp('owned')}/lake.db", ManualClock()
    with open_embedded(url, create=True, clock=clock) as first, open_embedded(url, clock=clock) as second:
        here, there = first.ensure_realm(), second.realm()
        here.create_catalog("lake").branch("main").commit([Put(("owned",), Namespace())])
        main = there.catalog("lake").branch("main")
        main.commit([Put(("owned", "early"), table("early"))])
        made: Connector = connectors(here.kernel).create("up", SPEC, catalog="lake", path=("owned",), meta=META).value
        assert made.destination.path == ("owned",)
        clock.move(1)
        with pytest.raises(DestinationOwned):
            main.commit([Put(("owned", "late"), table("late"))])
